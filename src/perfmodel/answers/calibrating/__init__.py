"""What calibration needs: tables of measurements, robust fits, and a report of what they miss."""

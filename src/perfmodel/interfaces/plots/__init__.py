"""Charts: functions that draw on Matplotlib axes, their own or yours, and return them.

They show nothing, change no setting of Matplotlib and do not load pyplot; without Matplotlib they
raise ``MissingExtraError``. Colours are Okabe and Ito's; styles, markers and hatches tell the same
apart without colour.
"""

from perfmodel.interfaces.plots.bars import memory
from perfmodel.interfaces.plots.curves import kv_growth, step_time
from perfmodel.interfaces.plots.front import frontier
from perfmodel.interfaces.plots.map import heatmap
from perfmodel.interfaces.plots.points import Point
from perfmodel.interfaces.plots.roofs import roofline

__all__ = ["Point", "frontier", "heatmap", "kv_growth", "memory", "roofline", "step_time"]

"""How a sweep is made: what is combined, in which parts, with which columns, written to where."""

"""Everything, in parts of at most 40 minutes: `make night`, or `make night PART=mutants-1`.

A part that passed is not run again until the product changes. The report has a line for each part.
"""

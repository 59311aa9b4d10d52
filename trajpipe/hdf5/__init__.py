"""What every HDF5 reader shares: safe opening, block-wise columns, attributes as plain values.

Below sources, demos, store and checks; no layout is known here.
"""

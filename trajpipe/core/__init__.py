"""The core: errors, names on disk, episodes, conventions, quaternions, ULPs, atomic files, ledger.

numpy and the standard library only; nothing here opens a data format.
"""

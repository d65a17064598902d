"""A kernel as its machine code describes it: resources, instructions, control flow, dependences, execution units.

Pure functions of the bytes of a cubin, apart from the processes of `tools`. Nothing here depends on a GPU or measures.
"""

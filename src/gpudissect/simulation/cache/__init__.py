"""Caches, TLBs and their policies, for the simulated GPU and for inference.

`geometry` describes them, `check` validates a geometry, `index` evaluates index functions, `models` simulates. Only
`models` compiles, and only when a model is made.
"""

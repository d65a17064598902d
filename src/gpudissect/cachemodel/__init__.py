"""Caches, TLBs and their policies, pure and fast; used by the simulated GPU and by the inference of policies."""

"""
Native core of celerity_py: regions, graph generation, scheduler thread, out-of-order engine.
"""

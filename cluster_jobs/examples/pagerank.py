# SPDX-License-Identifier: MIT
"""PageRank. The links are a sparse matrix in CSR, in which row i lists the pages that link to page i.

The links to page i are number `ends[i]` to `ends[i + 1]` of `sources` and `weights`. Run it with
`mpiexec -n 2 python cluster_jobs/examples/pagerank.py`.
"""

import numpy as np

import celerity_py as celerity
from celerity_py import access

DAMPING, TOLERANCE, AT_MOST = 0.85, 1e-10, 200


def problem(pages, links_of_page=8):
    num_links = pages * links_of_page
    targets = (pages * np.random.default_rng(1).random(num_links) ** 2).astype(int)  # mostly the first pages
    order = np.argsort(targets, kind="stable")
    ends = np.searchsorted(targets[order], np.arange(pages + 1))
    return ends, order // links_of_page, np.full(num_links, 1 / links_of_page)


def step(chunk, new, old, linking, ends, sources, weights, change):
    until = chunk.xp.zeros(sources.array.size + 1)
    until[1:] = chunk.xp.cumsum(weights[...] * linking.array[sources[...] - linking.box.min[0]])
    own = ends[...] - ends[chunk.box.min[0]]
    new[...] = (1 - DAMPING) / chunk.global_shape[0] + DAMPING * (until[own[1:]] - until[own[:-1]])
    change.combine(abs(new[...] - old[...]).max())


def pagerank(queue, ends, sources, weights):
    def rows(chunk):
        return slice(chunk.box.min[0], chunk.box.max[0] + 1)

    def links(chunk):
        return slice(ends[chunk.box.min[0]], ends[chunk.box.max[0]])

    pages, own = len(ends) - 1, access.one_to_one()
    linking = access.gather(sources, ends)  # the pages that link to the pages of a chunk
    old = celerity.Buffer.from_array(np.full(pages, 1 / pages), name="old")
    new, change = celerity.Buffer(pages, np.float64, name="new"), celerity.Buffer((), np.float64, name="change")
    parts = (ends, rows), (sources, links), (weights, links)
    matrix = [celerity.Buffer.from_array(array).read(mapper) for array, mapper in parts]
    is_small = {"when": lambda change: change < TOLERANCE, "keep": lambda: old}
    for _ in queue.until(lambda: queue.fence(change), every=5, at_most=AT_MOST, **is_small):
        accesses = new.write(own), old.read(own), old.read(linking)
        queue.parallel_for(pages, step, *accesses, *matrix, celerity.reduction(change, "max"))
        old, new = new, old
    return old


def pagerank_by_numpy(ends, sources, weights):
    pages = len(ends) - 1
    new = np.full(pages, 1 / pages)
    for _ in range(AT_MOST):
        old = new
        until = np.concatenate([[0], np.cumsum(weights * old[sources])])
        new = (1 - DAMPING) / pages + DAMPING * (until[ends[1:]] - until[ends[:-1]])
        if abs(new - old).max() < TOLERANCE:
            break
    return new


if __name__ == "__main__":
    matrix = problem(10_000)
    with celerity.Queue() as queue:
        result = queue.fence(pagerank(queue, *matrix), on="master").result()
        if celerity.is_master():
            np.testing.assert_allclose(result, pagerank_by_numpy(*matrix), atol=10 * TOLERANCE)
            print("The ranks are those of NumPy; the first three:", result[:3])

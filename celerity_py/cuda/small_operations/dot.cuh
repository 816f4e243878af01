// SPDX-License-Identifier: MIT
// The kernel of `queue.dot` and `queue.norm` for elements T, sums S and D dimensions, which lines before it define.
__global__ void work(celerity::chunk<D> chunk, accessor<const T, D> u, accessor<const T, D> v, reducer<S, celerity::sum> total) {
	const auto item = chunk.item();
	total.combine_block(chunk.contains(item) ? S(u[item]) * S(v[item]) : total.identity());
}

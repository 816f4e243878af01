// SPDX-License-Identifier: MIT
// The kernel of `queue.any` for elements T and D dimensions, which lines before it define.
__global__ void work(celerity::chunk<D> chunk, accessor<const T, D> flags, reducer<bool, celerity::logical_or> found) {
	const auto item = chunk.item();
	if(chunk.contains(item) && celerity::detail::is_true(flags[item])) found.combine(true);
}

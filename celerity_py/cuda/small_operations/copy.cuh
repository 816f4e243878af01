// SPDX-License-Identifier: MIT
// The kernel of `queue.copy` for elements T and D dimensions, which lines before it define.
__global__ void work(celerity::chunk<D> chunk, accessor<T, D> target, accessor<const T, D> source, long long shift_0, long long shift_1, long long shift_2) {
	const auto item = chunk.item();
	if(!chunk.contains(item)) return;
	const long long shift[3] = {shift_0, shift_1, shift_2};
	auto from = item;
	for(int d = 0; d < D; ++d) from.index[d] += shift[d];
	target[item] = source[from];
}

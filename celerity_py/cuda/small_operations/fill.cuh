// SPDX-License-Identifier: MIT
// The kernel of `queue.fill` for elements T and D dimensions, which lines before it define.
__global__ void work(celerity::chunk<D> chunk, accessor<T, D> target, T value) {
	const auto item = chunk.item();
	if(chunk.contains(item)) target[item] = value;
}

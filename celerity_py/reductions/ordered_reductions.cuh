// SPDX-License-Identifier: MIT
// The second kernel of a reduction in a fixed order, which combines a value per block into the one element of a buffer of D dimensions. Lines before it
// define D, T, a type of elements, and Op, an operation of reducers.
__global__ void work(celerity::chunk<1> chunk, accessor<const T, 1> blocks, accessor<T, D> result, long long count, bool includes_current) {
	auto total = celerity::detail::identity<Op, T>();
	for(long long i = threadIdx.x; i < count; i += blockDim.x) total = celerity::detail::fold<Op>(total, blocks(i));
	total = celerity::detail::fold_block<Op>(total);
	if(threadIdx.x == 0) {
		T& element = result[celerity::item<D>{}];
		element = includes_current ? celerity::detail::fold<Op>(element, total) : total;
	}
}

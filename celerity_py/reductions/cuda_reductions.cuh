// SPDX-License-Identifier: MIT
// The kernel behind `executor/core/backends/cuda/cuda_reductions`, whose launch has these parameters. Lines before it define T, a type of elements, and Op,
// an operation of reducers.
using number = unsigned long long;

__global__ void reduce_partials(const T* partials, number count, number num_elements, T* result, unsigned* has_values) {
	const number step = number(gridDim.x) * blockDim.x;
	for(number i = number(blockIdx.x) * blockDim.x + threadIdx.x; i < num_elements; i += step) {
		T total = partials[i];
		for(number k = 1; k < count; ++k) total = celerity::detail::fold<Op>(total, partials[k * num_elements + i]);
		result[i] = total;
		if(has_values != nullptr && !celerity::detail::has_same_bits(total, celerity::detail::identity<Op, T>())) *has_values = 1;
	}
}

// SPDX-License-Identifier: MIT
// Helpers of the kernels' bodies. The including source defines HOLD_US before.

template <class A>
__device__ auto& at(const A& a, long long i) {
	return a.data[i];
}
template <class A>
__device__ auto& at(const A& a, long long i, long long j) {
	return a.data[i * a.stride[0] + j];
}
template <class A>
__device__ auto& at(const A& a, long long i, long long j, long long k) {
	return a.data[i * a.stride[0] + j * a.stride[1] + k];
}

#define EACH(i, dim, axis) \
	for(long long i = chunk.min[dim] + (long long)blockIdx.axis * blockDim.axis + threadIdx.axis; i < chunk.max[dim]; \
	    i += (long long)gridDim.axis * blockDim.axis)
#define EACH_1D(i) EACH(i, 0, x)
#define EACH_2D(i, j) EACH(i, 0, y) EACH(j, 1, x)
#define EACH_3D(i, j, k) EACH(i, 0, z) EACH(j, 1, y) EACH(k, 2, x)
#define EACH_OF(i, n) for(long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x; i < n; i += (long long)gridDim.x * blockDim.x)

struct plus {
	template <class T>
	__device__ T operator()(T a, T b) const {
		return a + b;
	}
};
struct greater_of {
	template <class T>
	__device__ T operator()(T a, T b) const {
		return a > b ? a : b;
	}
};
struct lesser_of {
	template <class T>
	__device__ T operator()(T a, T b) const {
		return a < b ? a : b;
	}
};

// All threads of the block get the result. Blocks have a power of two of threads in x.
template <class T, class Op>
__device__ T fold_block(T value, Op op) {
	__shared__ T values[1024];
	__syncthreads();
	values[threadIdx.x] = value;
	__syncthreads();
	for(unsigned s = blockDim.x / 2; s > 0; s /= 2) {
		if(threadIdx.x < s) values[threadIdx.x] = op(values[threadIdx.x], values[threadIdx.x + s]);
		__syncthreads();
	}
	return values[0];
}

template <class T, class Op>
__device__ void fold_grid(T value, T identity, Op op, T* partials, int* arrived, T* result) {
	__shared__ bool is_last;
	value = fold_block(value, op);
	if(threadIdx.x == 0) {
		partials[blockIdx.x] = value;
		__threadfence();
		is_last = atomicInc((unsigned*)arrived, gridDim.x - 1) == gridDim.x - 1; // and back to 0 for the next launch
	}
	__syncthreads();
	if(!is_last) return;
	__threadfence();
	value = identity;
	for(unsigned b = threadIdx.x; b < gridDim.x; b += blockDim.x) value = op(value, ((volatile T*)partials)[b]);
	value = fold_block(value, op);
	if(threadIdx.x == 0) *result = value;
}

// Makes the kernel last, so that all of a program is issued before the first kernel ends.
__device__ void hold() {
#if HOLD_US > 0
	if(threadIdx.x + threadIdx.y + threadIdx.z + blockIdx.x + blockIdx.y + blockIdx.z == 0) {
		unsigned long long begun, now;
		asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(begun));
		do {
			__nanosleep(1000);
			asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
		} while(now - begun < HOLD_US * 1000ull);
	}
#endif
}

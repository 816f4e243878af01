// SPDX-License-Identifier: MIT
// The arguments of reductions: threads combine their values within a warp, within a block, and atomically in device memory.
#pragma once

#include "celerity_operations.cuh"

namespace celerity {
namespace detail {

// ---- atomically, in device memory

template <typename Word, typename Op, typename T>
__device__ void update_word(T* const address, const T& value) {
	Word old = *(volatile Word*)address;
	while(true) {
		const Word wanted = bits_as<Word>(fold<Op>(bits_as<T>(old), value));
		if(wanted == old) return; // most values change no minimum
		const Word found = atomicCAS((Word*)address, old, wanted);
		if(found == old) return;
		old = found;
	}
}

template <int Size>
struct small_bits {
	using type = unsigned char;
};
template <>
struct small_bits<2> {
	using type = unsigned short;
};

/// Exchanges an element that is smaller than any atomic operation together with the word around it.
template <typename Op, typename T>
__device__ void update_small(T* const address, const T& value) {
	const auto place = (unsigned long long)address;
	auto* const word = (unsigned*)(place & ~3ull);
	const unsigned shift = 8 * (unsigned)(place & 3ull);
	using Bits = typename small_bits<sizeof(T)>::type;
	const unsigned mask = (unsigned)(Bits)-1 << shift;
	unsigned old = *(volatile unsigned*)word;
	while(true) {
		const T result = fold<Op>(bits_as<T>((Bits)(old >> shift)), value);
		const unsigned wanted = (old & ~mask) | ((unsigned)bits_as<Bits>(result) << shift);
		if(wanted == old) return;
		const unsigned found = atomicCAS(word, old, wanted);
		if(found == old) return;
		old = found;
	}
}

/// For elements that are wider than any atomic operation. One lock per kernel source and device: it is held for some instructions.
template <typename T>
__device__ unsigned wide_lock = 0;

template <typename T>
struct words_of {
	unsigned words[(sizeof(T) + 3) / 4];
};

template <typename Op, typename T>
__device__ void update_wide(T* const address, const T& value) {
	constexpr unsigned num_words = sizeof(T) / sizeof(unsigned);
	volatile unsigned* const words = (volatile unsigned*)address;
	bool is_done = false;
	while(!is_done) {
		if(atomicCAS(&wide_lock<T>, 0u, 1u) != 0) continue;
		__threadfence();
		words_of<T> kept;
		for(unsigned i = 0; i < num_words; ++i) kept.words[i] = words[i];
		kept = bits_as<words_of<T>>(fold<Op>(bits_as<T>(kept), value));
		for(unsigned i = 0; i < num_words; ++i) words[i] = kept.words[i];
		__threadfence();
		atomicExch(&wide_lock<T>, 0u);
		is_done = true;
	}
}

template <typename T>
inline constexpr bool is_signed = !is_floating<T> && !is_complex<T> && T(-1) < T(0);

/// The integer that the hardware takes for an operation on one of 4 or 8 bytes.
template <int Size, bool IsSigned>
struct atomic_word {
	using type = unsigned;
};
template <>
struct atomic_word<4, true> {
	using type = int;
};
template <>
struct atomic_word<8, false> {
	using type = unsigned long long;
};
template <>
struct atomic_word<8, true> {
	using type = long long;
};

/// The operations of integers that the hardware knows, besides sums.
template <typename Op, typename T>
inline constexpr bool is_atomic =
    (sizeof(T) == 4 || sizeof(T) == 8) && !is_floating<T> && !is_complex<T> && (is_same<Op, min> || is_same<Op, max> || is_same<Op, bitwise_xor>);

template <typename Op, typename T>
__device__ __forceinline__ void update_atomically(T* const address, const T& value) {
	if constexpr(is_same<Op, bitwise_xor>) {
		using Word = typename atomic_word<sizeof(T), false>::type;
		atomicXor((Word*)address, (Word)value);
	} else {
		using Word = typename atomic_word<sizeof(T), is_signed<T>>::type;
		const T old = *(volatile T*)address;
		if(fold<Op>(old, value) == old) return; // most values change no minimum
		if constexpr(is_same<Op, min>) {
			atomicMin((Word*)address, (Word)value);
		} else {
			atomicMax((Word*)address, (Word)value);
		}
	}
}

template <typename Op, typename T>
__device__ __forceinline__ void update(T* const address, const T& value) {
	if constexpr(is_same<Op, sum> && is_complex<T>) {
		using R = typename parts_of<T>::type;
		const auto parts = bits_as<pair<R>>(value);
		atomicAdd((R*)address, parts.a);
		atomicAdd((R*)address + 1, parts.b);
	} else if constexpr(is_same<Op, sum> && is_floating<T>) {
		atomicAdd(address, value);
	} else if constexpr(is_same<Op, sum> && sizeof(T) == 8 && !is_complex<T>) {
		atomicAdd((unsigned long long*)address, (unsigned long long)value);
	} else if constexpr(is_same<Op, sum> && sizeof(T) == 4) {
		atomicAdd((unsigned*)address, (unsigned)value);
	} else if constexpr(is_atomic<Op, T>) {
		update_atomically<Op>(address, value);
	} else if constexpr(sizeof(T) < 4) {
		update_small<Op>(address, value);
	} else if constexpr(sizeof(T) == 4) {
		update_word<unsigned, Op>(address, value);
	} else if constexpr(sizeof(T) == 8) {
		update_word<unsigned long long, Op>(address, value);
	} else {
		update_wide<Op>(address, value);
	}
}

// ---- within a warp and a block

__device__ __forceinline__ unsigned thread_in_block() { return (threadIdx.z * blockDim.y + threadIdx.y) * blockDim.x + threadIdx.x; }
__device__ __forceinline__ unsigned threads_of_block() { return blockDim.x * blockDim.y * blockDim.z; }

__device__ __forceinline__ unsigned lane() {
	unsigned result = 0;
#ifdef __CUDA_ARCH__
	asm("mov.u32 %0, %%laneid;" : "=r"(result));
#endif
	return result;
}

__device__ __forceinline__ unsigned lowest_lanes(const unsigned count) { return count >= 32 ? ~0u : (1u << count) - 1; }

template <typename T>
__device__ __forceinline__ T from_lane(const unsigned mask, const T& value, const unsigned source) {
	words_of<T> exchanged{};
	memcpy(&exchanged, &value, sizeof value);
	for(unsigned& word : exchanged.words) word = __shfl_sync(mask, word, (int)source);
	T result;
	memcpy(&result, &exchanged, sizeof result);
	return result;
}

/// The fold of the values of all lanes in `mask`, which are those that are here; valid in its lowest lane.
template <typename Op, typename T>
__device__ T fold_warp(const unsigned mask, T value) {
	if((mask & (mask + 1)) == 0) { // lanes 0 to n - 1, as but for kernels that diverge
		for(unsigned distance = 16; distance > 0; distance /= 2) {
			const unsigned source = lane() + distance;
			const T other = from_lane(mask, value, source);
			if(source < 32 && (mask >> source & 1) != 0) value = fold<Op>(value, other);
		}
		return value;
	}
	const unsigned lowest = (unsigned)__ffs((int)mask) - 1;
	T total = from_lane(mask, value, lowest);
	for(unsigned rest = mask & (mask - 1); rest != 0; rest &= rest - 1) {
		const T other = from_lane(mask, value, (unsigned)__ffs((int)rest) - 1);
		total = fold<Op>(total, other);
	}
	return total;
}

/// Whether elements of type `T` lose the fraction of a `U`, as NumPy's `same_kind` rule has it.
template <typename T, typename U>
inline constexpr bool loses_fraction = is_floating<U> && !is_floating<T> && !is_complex<T> && sizeof(T) <= 8;

template <bool Condition>
struct only_if;
template <>
struct only_if<true> {
	using type = int;
};

/// The fold of the values of all threads of the block, which call it together, in an order that depends on their number only; valid in thread 0.
template <typename Op, typename T>
__device__ T fold_block(const T& value) {
	__shared__ alignas(16) unsigned char storage[32 * sizeof(T)];
	const unsigned thread = thread_in_block();
	const unsigned num_threads = threads_of_block();
	const T folded = fold_warp<Op>(lowest_lanes(num_threads - thread / 32 * 32), value);
	__syncthreads(); // an earlier call may still read
	if(thread % 32 == 0) memcpy(storage + thread / 32 * sizeof(T), &folded, sizeof(T));
	__syncthreads();
	T of_warp = identity<Op, T>();
	if(thread >= 32) return of_warp;
	if(thread < (num_threads + 31) / 32) memcpy(&of_warp, storage + thread * sizeof(T), sizeof(T));
	return fold_warp<Op>(lowest_lanes(num_threads), of_warp);
}

} // namespace detail

// For elements of integers, the overloads for floating-point values are better matches than a conversion.
#define CELERITY_REFUSES_FRACTIONS(function) \
	template <typename U, typename detail::only_if<detail::loses_fraction<T, U>>::type = 0> \
	__device__ void function(const U&) const { \
		static_assert(!detail::loses_fraction<T, U>, \
		    "the elements of this reduction are integers: convert the floating-point value, such as combine((int)x)"); \
	}

/// One element of a partial result of several.
template <typename T, typename Op>
struct reduced_element {
	T* partial; ///< null: outside of the buffer, as a check of bounds has found

	/// Any thread, at any place, any number of times.
	__device__ __forceinline__ void combine(const T& value) const {
#if CELERITY_BOUNDS_CHECK
		if(partial == nullptr) return;
#endif
		detail::update<Op>(partial, value);
	}
	CELERITY_REFUSES_FRACTIONS(combine)
};

template <typename T, typename Op, int D>
struct block_reducer;

/// The partial result of this chunk of a reduction into a buffer of `D` dimensions. The threads of the chunk combine values into its elements.
/// The order in which they do is not fixed, so floating-point sums may differ in their last bits from run to run; they never differ from rank to rank.
template <typename T, typename Op, int D = 0>
struct reducer {
	static_assert(D >= 0 && D <= 3, "buffers have 0 to 3 dimensions");
	T* partial;          ///< all elements, the last dimension varying fastest; they hold the identity before the launch
	long long extent[D]; ///< of the buffer
#if CELERITY_BOUNDS_CHECK
	violation* report;
	long long access;
#endif

	__device__ __forceinline__ static T identity() { return detail::identity<Op, T>(); }
	__device__ __forceinline__ static T fold(const T& x, const T& y) { return detail::fold<Op>(x, y); }

	/// One index per dimension.
	template <typename... Indices>
	__device__ __forceinline__ reduced_element<T, Op> operator()(const Indices... indices) const {
		static_assert(sizeof...(Indices) == D, "a reducer takes one index per dimension of its buffer");
		const long long index[D] = {(long long)indices...};
		return at(index);
	}
	__device__ __forceinline__ reduced_element<T, Op> operator[](const item<D>& where) const { return at(where.index); }
	/// The same as `reducer(i)`.
	__device__ __forceinline__ reduced_element<T, Op> operator[](const long long i) const {
		static_assert(D == 1, "with other than one dimension, write reducer(i, j)");
		return operator()(i);
	}

	/// How many elements the buffer has.
	__device__ __forceinline__ long long size() const {
		long long result = 1;
		for(int d = 0; d < D; ++d) result *= extent[d];
		return result;
	}

	/// A partial result of this block in shared memory, for many values that go to few elements. All threads of the block must call it together, and
	/// call `flush()` of the result together when they are done.
	template <int Capacity>
	__device__ __forceinline__ block_reducer<T, Op, D> in_block(T (&shared)[Capacity]) const {
		return block_reducer<T, Op, D>(*this, shared, Capacity);
	}

  private:
	friend struct block_reducer<T, Op, D>;

	__device__ __forceinline__ long long offset(const long long (&index)[D]) const {
		long long result = index[0];
		for(int d = 1; d < D; ++d) result = result * extent[d] + index[d];
		return result;
	}

	__device__ __forceinline__ reduced_element<T, Op> at(const long long (&index)[D]) const {
#if CELERITY_BOUNDS_CHECK
		for(int d = 0; d < D; ++d) {
			if(index[d] >= 0 && index[d] < extent[d]) continue;
			detail::complain<D>(report, access, index);
			return {nullptr};
		}
#endif
		return {partial + offset(index)};
	}
};

/// The partial result of one block; made by `reducer::in_block`. Of a buffer that has more elements than the shared memory, it combines into the partial
/// result of the chunk instead.
template <typename T, typename Op, int D>
struct block_reducer {
	__device__ __forceinline__ block_reducer(const reducer<T, Op, D>& whole, T* const shared, const long long capacity)
	    : m_whole(whole), m_shared(shared), m_fits(whole.size() <= capacity) {
		if(!m_fits) return;
		for(long long i = detail::thread_in_block(); i < m_whole.size(); i += detail::threads_of_block()) m_shared[i] = m_whole.identity();
		__syncthreads();
	}

	/// An element of the partial result of this block.
	struct element {
		T* in_block;
		reduced_element<T, Op> in_chunk; ///< instead, if `in_block` is null

		/// Any thread, between `in_block` and `flush`, any number of times.
		__device__ __forceinline__ void combine(const T& value) const {
			if(in_block != nullptr) {
				detail::update<Op>(in_block, value);
			} else {
				in_chunk.combine(value);
			}
		}
		CELERITY_REFUSES_FRACTIONS(combine)
	};

	/// One index per dimension.
	template <typename... Indices>
	__device__ __forceinline__ element operator()(const Indices... indices) const {
		static_assert(sizeof...(Indices) == D, "a reducer takes one index per dimension of its buffer");
		const long long index[D] = {(long long)indices...};
		return at(index);
	}
	__device__ __forceinline__ element operator[](const item<D>& where) const { return at(where.index); }
	/// The same as `block_reducer(i)`.
	__device__ __forceinline__ element operator[](const long long i) const {
		static_assert(D == 1, "with other than one dimension, write reducer(i, j)");
		return operator()(i);
	}

	/// Combines the partial result of the block with that of the chunk. All threads of the block must call it together.
	__device__ __forceinline__ void flush() const {
		if(!m_fits) return;
		__syncthreads();
		for(long long i = detail::thread_in_block(); i < m_whole.size(); i += detail::threads_of_block()) {
			const T value = m_shared[i];
			if(!detail::has_same_bits(value, m_whole.identity())) detail::update<Op>(m_whole.partial + i, value);
		}
	}

  private:
	reducer<T, Op, D> m_whole;
	T* m_shared;
	bool m_fits;

	__device__ __forceinline__ element at(const long long (&index)[D]) const {
		const auto in_chunk = m_whole.at(index);
		return {m_fits && in_chunk.partial != nullptr ? m_shared + m_whole.offset(index) : nullptr, in_chunk};
	}
};

/// The partial result of this chunk of a reduction into a buffer of one element.
template <typename T, typename Op>
struct reducer<T, Op, 0> {
	T* partial; ///< holds the identity before the launch

	__device__ __forceinline__ static T identity() { return detail::identity<Op, T>(); }
	__device__ __forceinline__ static T fold(const T& x, const T& y) { return detail::fold<Op>(x, y); }

	/// Any thread, at any place, any number of times.
	__device__ void combine(const T& value) const {
		const unsigned mask = __activemask();
		const T folded = detail::fold_warp<Op>(mask, value);
		if(detail::lane() == (unsigned)__ffs((int)mask) - 1) detail::update<Op>(partial, folded);
	}
	CELERITY_REFUSES_FRACTIONS(combine)

	/// The same with one access to memory per block, for large index spaces. All threads of the block must call it together, those whose item is not
	/// in the chunk with `identity()`.
	__device__ void combine_block(const T& value) const {
		const T total = detail::fold_block<Op>(value);
		if(detail::thread_in_block() == 0) detail::update<Op>(partial, total);
	}
	CELERITY_REFUSES_FRACTIONS(combine_block)
};

/// A reduction into a buffer of one element in an order that depends only on the blocks and their threads, as `deterministic=True` asks for. Each block has
/// a partial result to itself.
template <typename T, typename Op>
struct ordered_reducer {
	T* partials;          ///< of each block, in the order of their numbers; they hold the identity before the launch
	long long num_blocks; ///< of the largest grid
#if CELERITY_BOUNDS_CHECK
	violation* report;
	long long access;
#endif

	__device__ __forceinline__ static T identity() { return detail::identity<Op, T>(); }
	__device__ __forceinline__ static T fold(const T& x, const T& y) { return detail::fold<Op>(x, y); }

	/// All threads of the block must call it together, any number of times, those whose item is not in the chunk with `identity()`.
	__device__ void combine_block(const T& value) const {
		const T total = detail::fold_block<Op>(value);
		if(detail::thread_in_block() != 0) return;
		T& partial = partials[((long long)blockIdx.z * gridDim.y + blockIdx.y) * gridDim.x + blockIdx.x];
		partial = fold(partial, total);
	}
	CELERITY_REFUSES_FRACTIONS(combine_block)
};

#undef CELERITY_REFUSES_FRACTIONS

} // namespace celerity

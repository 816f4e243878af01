// SPDX-License-Identifier: MIT
// The kernels behind `executor/core/backends/cuda/cuda_small_copies`: several small strided copies in one launch.
//
// In a graph, another kernel exchanges data with other devices or ranks. It tells them that data is ready, waits until theirs is, copies it, and
// answers. Its flags lie in memory of the device: all arguments are constant. It puts small messages into inboxes, and looks for such messages in
// its own.

// The text of executor/core/devices/kernel_layouts.cuh comes before this one.
using namespace celerity;

// Many looks slow the GPU down: there are few blocks, and few looks at the stop, which lies in memory of the host.
// After a stop nothing of this context may run, as it would take the data for good.
template <typename IsReached>
__device__ void look_until(const volatile unsigned* stop, IsReached is_reached) {
	for(unsigned look = 1; !is_reached(look); ++look) {
		if(look % 1024 == 0 && *stop != 0) __trap();
#if __CUDA_ARCH__ >= 700
		if(look > 10000) __nanosleep(2000);  // the other side is some 10 ms behind: leave the bus to others
#endif
	}
}
// A look at a flag in memory of this device. What comes before the flag on the other side is there once the flag is.
// A fence behind the last look would take longer.
__device__ unsigned look_at(const volatile unsigned* word) {
	unsigned value;
#if __CUDA_ARCH__ >= 700
	asm volatile("ld.acquire.sys.global.u32 %0, [%1];" : "=r"(value) : "l"(word) : "memory");
#else
	value = *word;
	__threadfence_system();
#endif
	return value;
}
__device__ unsigned long long look_at(const volatile unsigned long long* word) {
	unsigned long long value;
#if __CUDA_ARCH__ >= 700
	asm volatile("ld.acquire.sys.global.u64 %0, [%1];" : "=l"(value) : "l"(word) : "memory");
#else
	value = *word;
	__threadfence_system();
#endif
	return value;
}
// Values wrap around.
__device__ bool is_behind(unsigned now, unsigned expected) { return (int)(now - expected) < 0; }

// Where word i of a copy lies, from its first byte, in source and destination.
template <typename Word>
__device__ void locate(const small_copy& rows, unsigned i, long long& from, long long& to) {
	const unsigned run = i / rows.count[0];
	const long long word = i - run * rows.count[0];
	const long long plane = run / rows.count[1];
	const long long row = run - plane * rows.count[1];
	from = word * sizeof(Word) + row * rows.source_stride[0] + plane * rows.source_stride[1];
	to = word * sizeof(Word) + row * rows.destination_stride[0] + plane * rows.destination_stride[1];
}

template <typename Word>
__device__ void copy(const small_copy& rows) {
	const unsigned total = rows.count[0] * rows.count[1] * rows.count[2];
	const char* const source = reinterpret_cast<const char*>(rows.source);
	char* const destination = reinterpret_cast<char*>(rows.destination);
	const unsigned stride = gridDim.x * blockDim.x;
	unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
	// Four loads at a time are under way: the data lies behind a link.
	for(; i + 3 * stride < total; i += 4 * stride) {
		Word words[4];
		long long from[4], to[4];
#pragma unroll
		for(int k = 0; k < 4; ++k) locate<Word>(rows, i + k * stride, from[k], to[k]);
#pragma unroll
		for(int k = 0; k < 4; ++k)
			// Another device has written it since this one looked last: past all caches.
			words[k] = __ldcv(reinterpret_cast<const Word*>(source + from[k]));
#pragma unroll
		for(int k = 0; k < 4; ++k) *reinterpret_cast<Word*>(destination + to[k]) = words[k];
	}
	for(; i < total; i += stride) {
		long long from, to;
		locate<Word>(rows, i, from, to);
		*reinterpret_cast<Word*>(destination + to) = __ldcv(reinterpret_cast<const Word*>(source + from));
	}
}

__device__ void copy_rows(const small_copy& rows) {
	switch(rows.word_bytes) {
	case 16: copy<int4>(rows); break;
	case 8: copy<long long>(rows); break;
	case 4: copy<int>(rows); break;
	case 2: copy<short>(rows); break;
	default: copy<char>(rows); break;
	}
}

template <typename Arguments>
__device__ void copy_all(const Arguments& arguments) {
	copy_rows(arguments.copies[blockIdx.y]);
}

__device__ graph_flag load(const graph_flag* flag) { return flag != nullptr ? *flag : graph_flag{}; }

// Between ranks there is a flag in host memory as well. Ranks that wait otherwise look at it, and raise it alone.
// A look at the host's memory takes as long as ten looks at the device's, and holds up all threads that look.
__device__ bool is_up(const graph_flag& flag, unsigned look) {
	if(flag.word != 0 && look_at((const volatile unsigned long long*)flag.word) >= flag.value) return true;
	if(flag.host == nullptr || (flag.word != 0 && look % 64 != 0)) return false;
	return !is_behind(look_at(flag.host), flag.host_value);
}

__device__ void raise(const graph_flag& flag) {
	__threadfence_system();
	if(flag.word != 0) *(volatile unsigned long long*)flag.word = flag.value;
	if(flag.host != nullptr) *(volatile unsigned*)flag.host = flag.host_value;
}

// Words of four bytes of a copy, and where they lie from its first byte.
__device__ unsigned num_inbox_words(const small_copy& rows) { return rows.count[0] * rows.count[1] * rows.count[2] * (rows.word_bytes / 4); }
__device__ void locate_in_inbox(const exchanged_copy& exchanged, unsigned i, long long& outside, long long& destination, long long& inbox) {
	const small_copy& rows = exchanged.copy;
	const unsigned words_per_run = rows.count[0] * (rows.word_bytes / 4), run = i / words_per_run;
	const long long word = i - run * words_per_run, plane = run / rows.count[1], row = run - plane * rows.count[1];
	outside = word * 4 + row * rows.source_stride[0] + plane * rows.source_stride[1];
	destination = word * 4 + row * rows.destination_stride[0] + plane * rows.destination_stride[1];
	inbox = word * 8 + row * exchanged.inbox.stride[0] + plane * exchanged.inbox.stride[1];
}
__device__ char* inbox_of(const inbox_words& inbox, unsigned message) {
	return (char*)inbox.address + (unsigned long long)(message % inbox.num_turns) * inbox.bytes_per_turn;
}

// Eight bytes arrive together: a word with the number of the right message is the right one.
__device__ void put(const exchanged_copy& stored, const graph_flag& flag) {
	char* const words = inbox_of(stored.inbox, flag.put_number);
	for(unsigned i = blockIdx.x * blockDim.x + threadIdx.x; i < num_inbox_words(stored.copy); i += gridDim.x * blockDim.x) {
		long long from, unused, to;
		locate_in_inbox(stored, i, from, unused, to);
		const unsigned word = *(const unsigned*)(stored.copy.source + from);
		asm volatile("st.volatile.global.v2.u32 [%0], {%1, %2};" ::"l"(words + to), "r"(word), "r"(flag.put_number) : "memory");
	}
}

// Takes the words out of the inbox once they are there. If the flag is up before, they are fetched: the message may
// not come, or a later one has overwritten it. At first one warp of a block looks, and most looks at the flag are
// those of its first thread: many looks hold up data.
__device__ void take(const exchanged_copy& taken, const graph_flag& flag, const volatile unsigned* stop, volatile unsigned& is_flag_up) {
	const char* const words = inbox_of(taken.inbox, flag.put_number);
	const unsigned total = num_inbox_words(taken.copy), first = blockIdx.x * blockDim.x + threadIdx.x;
	const auto take_word = [&](unsigned i, bool is_stored) {
		long long from, to, in_inbox;
		locate_in_inbox(taken, i, from, to, in_inbox);
		unsigned word, message;
		look_until(stop, [&](unsigned look) {
			asm volatile("ld.volatile.global.v2.u32 {%0, %1}, [%2];" : "=r"(word), "=r"(message) : "l"(words + in_inbox) : "memory");
			if(message == flag.put_number) return true;
			if((threadIdx.x == 0 || look % 64 == 0) && is_up(flag, look)) {
				__threadfence_block();
				is_flag_up = 1;
			}
			if(is_flag_up == 0) return false;
			__threadfence_system();
			word = __ldcv((const unsigned*)(taken.copy.source + from));
			return true;
		});
		if(is_stored) *(unsigned*)(taken.copy.destination + to) = word;
	};
	if(threadIdx.x < 32 && first < total) take_word(first, false);
	__syncthreads();
	for(unsigned i = first; i < total; i += gridDim.x * blockDim.x) take_word(i, true);
}

__device__ void await(const graph_flag& flag, const volatile unsigned* stop) {
	look_until(stop, [&](unsigned look) { return is_up(flag, look); });
}

// The first row has one block with work. It raises the flags, as the fence before them would wait for data that is
// under way, and waits for those that no copy needs. Blocks that wait may fill a small GPU: flags are up before, and a
// reader then fetches what has not come.
extern "C" __global__ void celerity_exchange(const __grid_constant__ exchange_arguments arguments) {
	__shared__ volatile unsigned is_flag_up;
	if(blockIdx.y == 0) {
		if(blockIdx.x != 0) return;
		if(threadIdx.x < arguments.num_raised) raise(*arguments.raised[threadIdx.x]);
		if(threadIdx.x < arguments.num_awaited) await(*arguments.awaited[threadIdx.x], arguments.stop);
		if(threadIdx.x < arguments.num_awaited_by_end) { await(*arguments.awaited_by_end[threadIdx.x], arguments.stop); }
		return;
	}
	const unsigned row = blockIdx.y - 1;
	if(threadIdx.x == 0) is_flag_up = 0;
	const graph_flag own = load(row < arguments.num_copies ? arguments.copies[row].flag : nullptr);
	if(row < arguments.num_puts) {
		const graph_flag flag = load(arguments.puts[row].flag);
		if(flag.put_number != 0) put(arguments.puts[row], flag);
	}
	if(row >= arguments.num_copies) return;
	const exchanged_copy& fetched = arguments.copies[row];
	const bool may_come = own.put_number != 0 && fetched.inbox.address != 0;
	if(threadIdx.x < arguments.num_awaited) {
		await(*arguments.awaited[threadIdx.x], arguments.stop);
	} else if(threadIdx.x == arguments.num_awaited && fetched.flag != nullptr && !may_come) {
		await(own, arguments.stop);
	}
	__syncthreads();
	if(may_come) {
		take(fetched, own, arguments.stop, is_flag_up);
	} else {
		copy_rows(fetched.copy);
	}
}

extern "C" __global__ void celerity_set_flags(const __grid_constant__ flag_arguments arguments) {
	if(threadIdx.x < arguments.count) arguments.destination[threadIdx.x] = arguments.flags[threadIdx.x];
}
extern "C" __global__ void celerity_advance_flags(graph_flag* flags, unsigned long long count) {
	for(unsigned long long i = threadIdx.x; i < count; i += blockDim.x) {
		++flags[i].value;
		if(flags[i].put_number != 0 && ++flags[i].put_number == 0) flags[i].put_number = 1;
	}
}

// A launch takes the longer, the more bytes of arguments it has.
extern "C" __global__ void celerity_few_copies(const __grid_constant__ small_copy_arguments<few_small_copies> arguments) { copy_all(arguments); }
extern "C" __global__ void celerity_many_copies(const __grid_constant__ small_copy_arguments<max_small_copies> arguments) { copy_all(arguments); }

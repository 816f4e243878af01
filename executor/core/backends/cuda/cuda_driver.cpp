// SPDX-License-Identifier: MIT
#include "cuda_driver.hpp"

#include <dlfcn.h>

namespace celerity::cuda {

namespace {

void* find(void* const library, const char* const name) {
	void* const function = dlsym(library, name);
	if(function == nullptr) throw std::runtime_error(std::string("the CUDA driver of this machine is too old: it lacks ") + name);
	return function;
}

template <typename Function>
void resolve(void* const library, Function*& out, const char* const name) {
	out = reinterpret_cast<Function*>(find(library, name));
}

template <call Kind, typename... Parameters>
void resolve(void* const library, counted<Kind, Parameters...>& out, const char* const name) {
	out = reinterpret_cast<typename counted<Kind, Parameters...>::function>(find(library, name));
}

template <typename Function>
void resolve_if_there(void* const library, Function*& out, const char* const name, const char*& missing) {
	out = reinterpret_cast<Function*>(dlsym(library, name));
	if(out == nullptr && missing == nullptr) missing = name;
}

/// A cache line of its own, so that threads that drive different devices do not disturb each other.
struct alignas(64) thread_counts {
	std::array<std::atomic<std::uint64_t>, names_of<call>.size()> by_call{};
};
std::array<thread_counts, 32> counts_of_threads;
std::atomic<std::size_t> num_counting_threads{0};

driver load() {
	void* const library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_GLOBAL);
	if(library == nullptr) throw std::runtime_error("no CUDA driver (libcuda.so.1) on this machine");
	driver d{};
	resolve(library, d.init, "cuInit");
	resolve(library, d.driver_get_version, "cuDriverGetVersion");
	resolve(library, d.get_error_name, "cuGetErrorName");
	resolve(library, d.get_error_string, "cuGetErrorString");
	resolve(library, d.device_get_count, "cuDeviceGetCount");
	resolve(library, d.device_get, "cuDeviceGet");
	resolve(library, d.device_get_name, "cuDeviceGetName");
	resolve(library, d.device_get_uuid, "cuDeviceGetUuid_v2");
	resolve(library, d.device_total_memory, "cuDeviceTotalMem_v2");
	resolve(library, d.device_get_attribute, "cuDeviceGetAttribute");
	resolve(library, d.device_can_access_peer, "cuDeviceCanAccessPeer");
	resolve(library, d.device_get_p2p_attribute, "cuDeviceGetP2PAttribute");
	resolve(library, d.primary_context_retain, "cuDevicePrimaryCtxRetain");
	resolve(library, d.context_set_current, "cuCtxSetCurrent");
	resolve(library, d.context_get_current, "cuCtxGetCurrent");
	resolve(library, d.context_enable_peer_access, "cuCtxEnablePeerAccess");
	resolve(library, d.stream_create, "cuStreamCreateWithPriority");
	resolve(library, d.stream_priorities, "cuCtxGetStreamPriorityRange");
	resolve(library, d.stream_destroy, "cuStreamDestroy_v2");
	resolve(library, d.stream_synchronize, "cuStreamSynchronize");
	resolve(library, d.stream_wait_event, "cuStreamWaitEvent");
	resolve(library, d.stream_batch, "cuStreamBatchMemOp_v2");
	resolve(library, d.stream_begin_capture, "cuStreamBeginCapture_v2");
	resolve(library, d.stream_get_capture, "cuStreamGetCaptureInfo_v2");
	resolve(library, d.stream_update_capture, "cuStreamUpdateCaptureDependencies");
	resolve(library, d.stream_end_capture, "cuStreamEndCapture");
	resolve(library, d.graph_instantiate, "cuGraphInstantiateWithFlags");
	resolve(library, d.graph_set_kernel_attribute, "cuGraphKernelNodeSetAttribute");
	resolve(library, d.graph_set_kernel, "cuGraphExecKernelNodeSetParams_v2");
	resolve(library, d.graph_launch, "cuGraphLaunch");
	resolve(library, d.graph_destroy, "cuGraphDestroy");
	resolve(library, d.executable_graph_destroy, "cuGraphExecDestroy");
	resolve(library, d.event_create, "cuEventCreate");
	resolve(library, d.event_destroy, "cuEventDestroy_v2");
	resolve(library, d.event_record, "cuEventRecord");
	resolve(library, d.event_query, "cuEventQuery");
	resolve(library, d.event_elapsed, "cuEventElapsedTime");
	resolve(library, d.memory_info, "cuMemGetInfo_v2");
	resolve(library, d.memory_allocate, "cuMemAlloc_v2");
	resolve(library, d.memory_free, "cuMemFree_v2");
	resolve(library, d.host_allocate, "cuMemHostAlloc");
	resolve(library, d.host_free, "cuMemFreeHost");
	resolve(library, d.host_register, "cuMemHostRegister_v2");
	resolve(library, d.host_unregister, "cuMemHostUnregister");
	resolve(library, d.host_get_device_pointer, "cuMemHostGetDevicePointer_v2");
	resolve(library, d.copy_async, "cuMemcpyAsync");
	resolve(library, d.copy_2d_async, "cuMemcpy2DAsync_v2");
	resolve(library, d.copy_3d_async, "cuMemcpy3DAsync_v2");
	resolve(library, d.allocate_async, "cuMemAllocAsync");
	resolve(library, d.free_async, "cuMemFreeAsync");
	resolve(library, d.fill_async, "cuMemsetD8Async");
	resolve(library, d.fill_words_async, "cuMemsetD32Async");
	resolve(library, d.fill_2d_async, "cuMemsetD2D8Async");
	resolve(library, d.fill_words_2d_async, "cuMemsetD2D32Async");
	resolve(library, d.launch, "cuLaunchKernel");
	resolve(library, d.ipc_get_handle, "cuIpcGetMemHandle");
	resolve(library, d.ipc_open_handle, "cuIpcOpenMemHandle_v2");
	resolve(library, d.ipc_close_handle, "cuIpcCloseMemHandle");
	resolve_if_there(library, d.device_get_resource, "cuDeviceGetDevResource", d.missing_for_parts);
	resolve_if_there(library, d.split_multiprocessors, "cuDevSmResourceSplitByCount", d.missing_for_parts);
	resolve_if_there(library, d.describe_resources, "cuDevResourceGenerateDesc", d.missing_for_parts);
	resolve_if_there(library, d.green_context_create, "cuGreenCtxCreate", d.missing_for_parts);
	resolve_if_there(library, d.green_context_destroy, "cuGreenCtxDestroy", d.missing_for_parts);
	resolve_if_there(library, d.green_context_convert, "cuCtxFromGreenCtx", d.missing_for_parts);
	resolve_if_there(library, d.green_stream_create, "cuGreenCtxStreamCreate", d.missing_for_parts);
	d.check(d.init(0), "cuInit");
	return d;
}

} // namespace

std::atomic<std::uint64_t>& own_count(const call kind) {
	thread_local thread_counts& own = counts_of_threads[num_counting_threads.fetch_add(1, std::memory_order_relaxed) % counts_of_threads.size()];
	return own.by_call[static_cast<std::size_t>(kind)];
}

call_counts count_calls() {
	call_counts sums{};
	for(const auto& counts : counts_of_threads) {
		for(std::size_t i = 0; i < sums.size(); ++i) sums[i] += counts.by_call[i].load(std::memory_order_relaxed);
	}
	return sums;
}

std::span<const graph_node> driver::latest_nodes(const stream s) const {
	int status = 0;
	unsigned long long id = 0;
	graph captured = nullptr;
	const graph_node* nodes = nullptr;
	std::size_t num_nodes = 0;
	check(stream_get_capture(s, &status, &id, &captured, &nodes, &num_nodes), "cuStreamGetCaptureInfo");
	return {nodes, num_nodes};
}

std::string driver::describe(const result code) const {
	const char* name = nullptr;
	const char* text = nullptr;
	if(get_error_name(code, &name) != success || name == nullptr) return "unknown CUDA error " + std::to_string(code);
	std::string description(name);
	if(get_error_string(code, &text) == success && text != nullptr) description += std::string(" (") + text + ")";
	return description;
}

void driver::check(const result code, const char* const call) const {
	if(code != success) throw driver_error(call, code, describe(code));
}

std::string unique_id(const int ordinal) {
	const auto& d = get_driver();
	device handle = 0;
	unsigned char bytes[16]{};
	d.check(d.device_get(&handle, ordinal), "cuDeviceGet");
	d.check(d.device_get_uuid(bytes, handle), "cuDeviceGetUuid");
	std::string digits;
	for(const unsigned char byte : bytes) {
		digits += "0123456789abcdef"[byte >> 4];
		digits += "0123456789abcdef"[byte & 15];
	}
	return digits;
}

const driver& get_driver() {
	static const driver loaded = load();
	return loaded;
}

} // namespace celerity::cuda

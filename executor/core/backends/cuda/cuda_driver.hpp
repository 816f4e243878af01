// SPDX-License-Identifier: MIT
// The functions of the CUDA driver that we use, found in the libcuda of the machine at run time: building needs no CUDA at all.
//
// Names, numbers and layouts of structures are those of the public driver API, version 12 and later.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "devices/backend.hpp"
#include "scheduler/core/base/names.hpp"

namespace celerity::cuda {

using result = int; // CUresult
using device = int; // CUdevice, the ordinal's handle
using context = struct context_tag*;
using stream = struct stream_tag*;
using event = struct event_tag*;
using function = struct function_tag*;
using graph = struct graph_tag*;
using graph_node = struct graph_node_tag*;
using executable_graph = struct executable_graph_tag*;
using green_context = struct green_context_tag*;
using resource_description = struct resource_description_tag*;
using device_pointer = unsigned long long;

inline device_pointer to_device_pointer(const void* const address) { return reinterpret_cast<std::uintptr_t>(address); }

inline constexpr result success = 0;
inline constexpr result error_out_of_memory = 2;
inline constexpr result error_not_ready = 600;
inline constexpr result error_peer_access_already_enabled = 704;
inline constexpr result error_host_memory_already_registered = 712;

inline constexpr unsigned stream_non_blocking = 1;
inline constexpr unsigned event_default = 0;
inline constexpr unsigned event_disable_timing = 2;
inline constexpr int capture_relaxed = 2;
inline constexpr unsigned capture_set_dependencies = 1;
inline constexpr unsigned host_memory_portable = 1;
inline constexpr unsigned host_memory_mapped = 2;
inline constexpr unsigned ipc_lazy_enable_peer_access = 1;
inline constexpr int attribute_max_pitch = 11;
inline constexpr int attribute_kernel_timeout = 17;
inline constexpr int attribute_memory_clock_rate_khz = 36;
inline constexpr int attribute_memory_bus_width_bits = 37;
inline constexpr int p2p_attribute_performance_rank = 1; ///< 0: the best
inline constexpr int memory_type_unified = 4;

struct copy_2d { // CUDA_MEMCPY2D
	std::size_t source_x_bytes, source_y;
	int source_type;
	const void* source_host;
	device_pointer source_device;
	void* source_array;
	std::size_t source_pitch;
	std::size_t destination_x_bytes, destination_y;
	int destination_type;
	void* destination_host;
	device_pointer destination_device;
	void* destination_array;
	std::size_t destination_pitch;
	std::size_t width_bytes, height;
};
static_assert(sizeof(copy_2d) == 128);

struct copy_3d { // CUDA_MEMCPY3D
	std::size_t source_x_bytes, source_y, source_z, source_lod;
	int source_type;
	const void* source_host;
	device_pointer source_device;
	void* source_array;
	void* reserved_0;
	std::size_t source_pitch, source_height;
	std::size_t destination_x_bytes, destination_y, destination_z, destination_lod;
	int destination_type;
	void* destination_host;
	device_pointer destination_device;
	void* destination_array;
	void* reserved_1;
	std::size_t destination_pitch, destination_height;
	std::size_t width_bytes, height, depth;
};
static_assert(sizeof(copy_3d) == 200);

/// One of several operations on words of memory, which run in their order.
struct memory_operation { // CUstreamBatchMemOpParams
	int kind;
	device_pointer address;
	std::uint64_t value;
	unsigned flags; ///< of a wait: how to compare
	device_pointer alias;
	std::uint64_t unused;
};
static_assert(sizeof(memory_operation) == 48);
inline constexpr int memory_operation_wait = 1; // of 32 bits
inline constexpr int memory_operation_write = 2;
inline constexpr unsigned wait_value_geq = 0;
inline constexpr std::size_t max_memory_operations = 255; ///< in one call

union launch_attribute { // CUlaunchAttributeValue
	char bytes[64];
	int priority; ///< of `launch_attribute_priority`
};
static_assert(sizeof(launch_attribute) == 64);
inline constexpr int launch_attribute_priority = 8;
/// Kernels of a graph have the priorities of their nodes, and not that of the stream on which the graph is launched.
inline constexpr unsigned long long instantiate_with_node_priorities = 8;

struct kernel_parameters { // CUDA_KERNEL_NODE_PARAMS
	cuda::function function;
	unsigned grid_x, grid_y, grid_z, block_x, block_y, block_z, shared_bytes;
	void** values;
	void** extra;
	void* kernel; ///< in place of a function
	cuda::context context; ///< of the kernel
};
static_assert(sizeof(kernel_parameters) == 72);

/// Multiprocessors of a GPU, as a function of the driver gives them.
struct alignas(8) device_resource { // CUdevResource
	int kind;
	unsigned char internal[92];
	unsigned num_multiprocessors;
	unsigned char of_later_versions[44];
};
static_assert(sizeof(device_resource) == 144);
inline constexpr int resource_multiprocessors = 1;
inline constexpr unsigned green_context_with_default_stream = 1; // the driver demands it

struct ipc_handle { // CUipcMemHandle
	char bytes[64];
};

/// A call of the driver failed. The context is usually lost with it.
class driver_error : public device_failure {
  public:
	driver_error(const std::string& call, result code, const std::string& text) : device_failure(call + " failed: " + text), m_code(code) {}
	result code() const { return m_code; }

  private:
	result m_code;
};

/// The calls with which work gets onto streams, and by which the host follows it.
enum class call : std::uint8_t { launch, copy, copy_2d, copy_3d, flags, event_record, event_wait, event_query, set_context, graph };

} // namespace celerity::cuda

namespace celerity {

template <>
inline constexpr std::array names_of<cuda::call>{"cuLaunchKernel", "cuMemcpyAsync", "cuMemcpy2DAsync", "cuMemcpy3DAsync", "cuStreamBatchMemOp", "cuEventRecord",
    "cuStreamWaitEvent", "cuEventQuery", "cuCtxSetCurrent", "cuGraphLaunch"};

} // namespace celerity

namespace celerity::cuda {

using call_counts = std::array<std::uint64_t, names_of<call>.size()>;

/// Of this process so far, by call. Any thread.
call_counts count_calls();
/// Of the calling thread. Threads beyond the first few share counters.
std::atomic<std::uint64_t>& own_count(call kind);

/// A function of the driver whose calls are counted.
template <call Kind, typename... Parameters>
class counted {
  public:
	using function = result (*)(Parameters...);
	counted& operator=(const function to) {
		m_function = to;
		return *this;
	}
	result operator()(const Parameters... arguments) const {
		own_count(Kind).fetch_add(1, std::memory_order_relaxed);
		return m_function(arguments...);
	}

  private:
	function m_function = nullptr;
};

/// Functions, never null: loading fails if one is missing. Those of green contexts are null in drivers before CUDA 12.5.
struct driver {
	result (*init)(unsigned flags);
	result (*driver_get_version)(int* version);
	result (*get_error_name)(result code, const char** text);
	result (*get_error_string)(result code, const char** text);
	result (*device_get_count)(int* count);
	result (*device_get)(device* out, int ordinal);
	result (*device_get_name)(char* name, int length, device dev);
	result (*device_get_uuid)(unsigned char* sixteen_bytes, device dev);
	result (*device_total_memory)(std::size_t* bytes, device dev);
	result (*device_get_attribute)(int* value, int attribute, device dev);
	result (*device_can_access_peer)(int* can, device from, device to);
	result (*device_get_p2p_attribute)(int* value, int attribute, device from, device to);
	result (*primary_context_retain)(context* out, device dev);
	counted<call::set_context, context> context_set_current;
	result (*context_get_current)(context* out);
	result (*context_enable_peer_access)(context peer, unsigned flags);
	result (*stream_create)(stream* out, unsigned flags, int priority);
	/// Of the current context. Smaller numbers are more urgent.
	result (*stream_priorities)(int* least, int* greatest);
	result (*stream_destroy)(stream s);
	result (*stream_synchronize)(stream s);
	counted<call::event_wait, stream, event, unsigned> stream_wait_event;
	counted<call::flags, stream, unsigned, memory_operation*, unsigned> stream_batch;
	/// Until stream_end_capture(), operations that are put on the stream become nodes of a graph.
	result (*stream_begin_capture)(stream s, int mode);
	/// `nodes`: the next node of the graph depends on them. They are valid until the next call for the stream.
	result (*stream_get_capture)(stream s, int* status, unsigned long long* id, graph* out, const graph_node** nodes, std::size_t* num_nodes);
	result (*stream_update_capture)(stream s, graph_node* nodes, std::size_t num_nodes, unsigned flags);
	result (*stream_end_capture)(stream s, graph* out);
	result (*graph_instantiate)(executable_graph* out, graph from, unsigned long long flags);
	result (*graph_set_kernel_attribute)(graph_node node, int attribute, const launch_attribute* value);
	/// For later launches. The node is one of the graph of which the executable one has been made.
	result (*graph_set_kernel)(executable_graph g, graph_node node, const kernel_parameters* parameters);
	counted<call::graph, executable_graph, stream> graph_launch;
	result (*graph_destroy)(graph g);
	result (*executable_graph_destroy)(executable_graph g);
	result (*event_create)(event* out, unsigned flags);
	result (*event_destroy)(event e);
	counted<call::event_record, event, stream> event_record;
	counted<call::event_query, event> event_query;
	result (*event_elapsed)(float* milliseconds, event from, event to);
	result (*memory_info)(std::size_t* free_bytes, std::size_t* total_bytes);
	result (*memory_allocate)(device_pointer* out, std::size_t size);
	result (*memory_free)(device_pointer address);
	result (*host_allocate)(void** out, std::size_t size, unsigned flags);
	result (*host_free)(void* address);
	result (*host_register)(void* address, std::size_t size, unsigned flags);
	result (*host_unregister)(void* address);
	result (*host_get_device_pointer)(device_pointer* out, void* address, unsigned flags);
	counted<call::copy, device_pointer, device_pointer, std::size_t, stream> copy_async;
	counted<call::copy_2d, const copy_2d*, stream> copy_2d_async;
	counted<call::copy_3d, const copy_3d*, stream> copy_3d_async;
	result (*allocate_async)(device_pointer* address, std::size_t size_bytes, stream s);
	result (*free_async)(device_pointer address, stream s);
	result (*fill_async)(device_pointer address, unsigned char value, std::size_t count, stream s);
	result (*fill_words_async)(device_pointer address, unsigned value, std::size_t count, stream s);
	result (*fill_2d_async)(device_pointer address, std::size_t pitch_bytes, unsigned char value, std::size_t width, std::size_t height, stream s);
	result (*fill_words_2d_async)(device_pointer address, std::size_t pitch_bytes, unsigned value, std::size_t width, std::size_t height, stream s);
	counted<call::launch, function, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, stream, void**, void**> launch;
	result (*ipc_get_handle)(ipc_handle* out, device_pointer address);
	result (*ipc_open_handle)(device_pointer* out, ipc_handle handle, unsigned flags);
	result (*ipc_close_handle)(device_pointer address);

	// Green contexts: parts of the multiprocessors of a GPU, in its primary context.

	result (*device_get_resource)(device dev, device_resource* out, int kind);
	/// Into at most `*num_groups` groups of `least` multiprocessors or a few more, and the remainder.
	result (*split_multiprocessors)(device_resource* groups, unsigned* num_groups, const device_resource* from, device_resource* remainder, unsigned flags,
	    unsigned least);
	result (*describe_resources)(resource_description* out, device_resource* resources, unsigned count);
	result (*green_context_create)(green_context* out, resource_description of, device dev, unsigned flags);
	result (*green_context_destroy)(green_context c);
	result (*green_context_convert)(context* out, green_context c); ///< the driver sets the context up
	result (*green_stream_create)(stream* out, green_context c, unsigned flags, int priority);
	const char* missing_for_parts; ///< the first of these functions that the driver lacks; null if it has all of them

	/// Throws driver_error unless `code` is success. `call` is the name of the function.
	void check(result code, const char* call) const;
	std::string describe(result code) const;
	/// Of a stream that is being captured: the next node depends on them. Valid until the next call for the stream.
	std::span<const graph_node> latest_nodes(stream s) const;
};

/// Restores the current context of the thread at the end, because users choose the current device themselves.
class kept_context {
  public:
	explicit kept_context(const driver& from) : m_driver(from) { m_driver.context_get_current(&m_context); }
	~kept_context() { m_driver.context_set_current(m_context); }
	kept_context(const kept_context&) = delete;
	kept_context& operator=(const kept_context&) = delete;

  private:
	const driver& m_driver;
	context m_context = nullptr;
};

/// Loads and initialises the driver once per process. Throws std::runtime_error that names the missing library or function.
const driver& get_driver();

/// Of a GPU, in hexadecimal digits; the same in all processes of the host.
std::string unique_id(int ordinal);

} // namespace celerity::cuda

// SPDX-License-Identifier: MIT
// The functions of the emulated driver.
#include "cuda.hpp"

#include "devices.hpp"

using namespace emulated_cuda::inner;

namespace emulated_cuda {

void configure(const settings& values) { options = values; }
void trap() { working->lose(); }
bool is_lost(const int device) { return devices().at(static_cast<std::size_t>(device))->is_lost(); }
void hold(const bool is_held, const int first_device) { first_held = is_held ? first_device : std::numeric_limits<int>::max(); }
void count_flag_write() { ++flag_writes; }
std::uint64_t num_flag_writes() { return flag_writes; }
std::uint64_t num_host_copies() { return host_copies; }
int num_streams_made(const int priority) { return streams_by_priority.at(static_cast<std::size_t>(priority)); }
int num_nodes_made(const int priority) { return nodes_by_priority.at(static_cast<std::size_t>(priority)); }
int num_live_graphs() { return num_graphs; }
int num_graphs_made() { return made_graphs; }
int num_graph_launches() { return launched_graphs; }
int num_changed_nodes() { return changed_nodes; }
std::map<unsigned, int> num_launches(const function& launched) {
	const std::lock_guard lock(launches_mutex);
	return launches[&launched];
}
holdings held() { return {device_memory.total_bytes(), host_memory.total_bytes(), num_streams, num_events, num_graphs, num_opened, num_registered, num_parts}; }
void describe() {
	for(std::size_t i = 0; i < devices().size(); ++i) devices()[i]->describe(static_cast<int>(i));
}
void die(const std::string& what) {
	std::fprintf(stderr, "FAILED: %s\n", what.c_str());
	describe();
	std::abort();
}

} // namespace emulated_cuda

#define EMULATED extern "C" __attribute__((visibility("default"))) result

EMULATED cuInit(unsigned) { return cuda::success; }
EMULATED cuDriverGetVersion(int* const version) {
	*version = 13000;
	return cuda::success;
}
EMULATED cuGetErrorName(result, const char** const text) {
	*text = "EMULATED_ERROR";
	return cuda::success;
}
EMULATED cuGetErrorString(result, const char** const text) {
	*text = "an error of the emulated driver";
	return cuda::success;
}
EMULATED cuDeviceGetCount(int* const count) {
	*count = options.num_devices;
	return cuda::success;
}
EMULATED cuDeviceGet(cuda::device* const out, const int ordinal) {
	*out = ordinal;
	return cuda::success;
}
EMULATED cuDeviceGetName(char* const name, const int length, cuda::device) {
	std::snprintf(name, static_cast<std::size_t>(length), "emulated");
	return cuda::success;
}
EMULATED cuDeviceGetUuid_v2(unsigned char* const bytes, const cuda::device device) {
	std::memset(bytes, device, 16);
	return cuda::success;
}
EMULATED cuDeviceTotalMem_v2(std::size_t* const bytes, cuda::device) {
	*bytes = std::size_t{1} << 30;
	return cuda::success;
}
EMULATED cuDeviceGetAttribute(int* const value, const int attribute, cuda::device) {
	*value = attribute == cuda::attribute_max_pitch ? 1 << 30 : 0;
	return cuda::success;
}
EMULATED cuDeviceCanAccessPeer(int* const can, cuda::device, cuda::device) {
	*can = 1;
	return cuda::success;
}
EMULATED cuDeviceGetP2PAttribute(int* const value, int, cuda::device, cuda::device) {
	*value = 0; // all links are equal
	return cuda::success;
}
EMULATED cuDevicePrimaryCtxRetain(cuda::context* const out, const cuda::device device) {
	*out = reinterpret_cast<cuda::context>(static_cast<std::uintptr_t>(device) + 1);
	return cuda::success;
}
EMULATED cuCtxSetCurrent(const cuda::context context) {
	current = context;
	return cuda::success;
}
EMULATED cuCtxGetCurrent(cuda::context* const out) {
	*out = current;
	return cuda::success;
}
EMULATED cuCtxEnablePeerAccess(cuda::context, unsigned) { return cuda::success; }
EMULATED cuCtxGetStreamPriorityRange(int* const least, int* const greatest) {
	*least = 0;
	*greatest = -5;
	return cuda::success;
}
EMULATED cuStreamCreateWithPriority(cuda::stream* const out, unsigned, const int priority) {
	*out = make_stream(index_of(current), priority, nullptr);
	return cuda::success;
}
EMULATED cuStreamDestroy_v2(const cuda::stream stream) {
	if(auto* const part = state_of(stream).part; part != nullptr) --part->num_streams;
	delete &state_of(stream);
	--num_streams;
	return cuda::success;
}
EMULATED cuDeviceGetDevResource(const cuda::device device, cuda::device_resource* const out, const int kind) {
	if(options.refuses_parts) return 801; // CUDA_ERROR_NOT_SUPPORTED
	if(kind != cuda::resource_multiprocessors) return 1; // CUDA_ERROR_INVALID_VALUE
	*out = make_resource(device, options.num_multiprocessors);
	return cuda::success;
}
EMULATED cuDevSmResourceSplitByCount(cuda::device_resource* const groups, unsigned* const num_groups, const cuda::device_resource* const from,
    cuda::device_resource* const remainder, unsigned, const unsigned least) {
	constexpr unsigned smallest = 8, step = 4, smallest_remainder = 6;
	if(least > from->num_multiprocessors) return 1; // CUDA_ERROR_INVALID_VALUE
	const unsigned count = std::max(smallest, (least + step - 1) / step * step);
	const bool fits = *num_groups > 0 && count + smallest_remainder <= from->num_multiprocessors;
	*num_groups = fits ? 1 : 0;
	if(fits) groups[0] = make_resource(device_of(*from), count);
	*remainder = make_resource(device_of(*from), from->num_multiprocessors - (fits ? count : 0));
	return cuda::success;
}
EMULATED cuDevResourceGenerateDesc(cuda::resource_description* const out, cuda::device_resource* const resources, const unsigned count) {
	if(count != 1) return 1; // CUDA_ERROR_INVALID_VALUE
	*out = reinterpret_cast<cuda::resource_description>(new part_state{device_of(*resources), resources->num_multiprocessors});
	return cuda::success;
}
EMULATED cuGreenCtxCreate(cuda::green_context* const out, const cuda::resource_description of, const cuda::device device, const unsigned flags) {
	auto* const part = reinterpret_cast<part_state*>(of);
	if(part->device != device || flags != cuda::green_context_with_default_stream) return 1; // CUDA_ERROR_INVALID_VALUE
	*out = reinterpret_cast<cuda::green_context>(part);
	++num_parts;
	return cuda::success;
}
EMULATED cuCtxFromGreenCtx(cuda::context* const out, const cuda::green_context context) {
	auto* const part = reinterpret_cast<part_state*>(context);
	part->is_set_up = true;
	*out = reinterpret_cast<cuda::context>(static_cast<std::uintptr_t>(part->device) + 1);
	return cuda::success;
}
EMULATED cuGreenCtxStreamCreate(cuda::stream* const out, const cuda::green_context context, const unsigned flags, const int priority) {
	if(flags != cuda::stream_non_blocking) return 1; // CUDA_ERROR_INVALID_VALUE
	auto* const part = reinterpret_cast<part_state*>(context);
	*out = make_stream(static_cast<std::size_t>(part->device), priority, part);
	++part->num_streams;
	return cuda::success;
}
EMULATED cuGreenCtxDestroy(const cuda::green_context context) {
	const auto* const part = reinterpret_cast<const part_state*>(context);
	if(part->num_streams > 0) emulated_cuda::die("a green context is destroyed before its streams");
	delete part;
	--num_parts;
	return cuda::success;
}
EMULATED cuStreamBeginCapture_v2(const cuda::stream stream, int) {
	auto& state = state_of(stream);
	state.capture = std::make_shared<graph_state>();
	state.capture->origin = &state;
	state.latest.clear();
	parts_of_nodes.clear();
	return cuda::success;
}
EMULATED cuStreamGetCaptureInfo_v2(const cuda::stream stream, int* const status, unsigned long long* const id, cuda::graph* const out,
    const cuda::graph_node** const nodes, std::size_t* const num_nodes) {
	const auto& state = state_of(stream);
	*status = state.capture != nullptr ? 1 : 0;
	*id = 1;
	*out = reinterpret_cast<cuda::graph>(state.capture.get());
	*nodes = state.latest.data();
	*num_nodes = state.latest.size();
	return cuda::success;
}
EMULATED cuStreamUpdateCaptureDependencies(const cuda::stream stream, cuda::graph_node* const nodes, const std::size_t num_nodes, const unsigned flags) {
	auto& state = state_of(stream);
	if(state.capture == nullptr || flags != cuda::capture_set_dependencies) return 1; // CUDA_ERROR_INVALID_VALUE
	state.latest.assign(nodes, nodes + num_nodes);
	return cuda::success;
}
EMULATED cuStreamEndCapture(const cuda::stream stream, cuda::graph* const out) {
	auto& state = state_of(stream);
	if(state.capture == nullptr || state.capture->origin != &state) return 903; // CUDA_ERROR_STREAM_CAPTURE_UNMATCHED
	const auto captured = std::move(state.capture);
	for(auto* const other : captured->joined) other->capture = nullptr;
	*out = nullptr;
	if(!captured->behind.empty()) return 904; // CUDA_ERROR_STREAM_CAPTURE_UNJOINED
	auto* const made = new graph_state(std::move(*captured));
	*out = reinterpret_cast<cuda::graph>(made);
	const std::lock_guard lock(live_captures_mutex);
	live_captures.insert(made);
	return cuda::success;
}
EMULATED cuGraphKernelNodeSetAttribute(const cuda::graph_node node, const int attribute, const cuda::launch_attribute* const value) {
	if(node == nullptr || attribute != cuda::launch_attribute_priority || value->priority > 0 || value->priority < -5) return 1; // CUDA_ERROR_INVALID_VALUE
	const auto* const part = parts_of_nodes.at(index_of(node));
	if(part != nullptr && !part->is_set_up) return 201; // CUDA_ERROR_INVALID_CONTEXT
	++nodes_by_priority[static_cast<std::size_t>(-value->priority)];
	return cuda::success;
}
EMULATED cuGraphInstantiateWithFlags(cuda::executable_graph* const out, const cuda::graph graph, unsigned long long) {
	if(options.instantiation_waits) devices().at(index_of(current))->wait_until_idle();
	auto* const made = new executable_graph_state;
	made->nodes = std::make_shared<std::vector<graph_state::node>>(reinterpret_cast<const graph_state*>(graph)->nodes);
	made->source = reinterpret_cast<const graph_state*>(graph);
	*out = reinterpret_cast<cuda::executable_graph>(made);
	++num_graphs;
	++made_graphs;
	return cuda::success;
}
EMULATED cuGraphDestroy(const cuda::graph graph) {
	{
		const std::lock_guard lock(live_captures_mutex);
		live_captures.erase(reinterpret_cast<graph_state*>(graph));
	}
	delete reinterpret_cast<graph_state*>(graph);
	return cuda::success;
}
EMULATED cuGraphLaunch(const cuda::executable_graph graph, const cuda::stream stream) {
	auto& launched = *reinterpret_cast<executable_graph_state*>(graph);
	++launched.num_in_flight;
	++launched_graphs;
	const auto run = [&launched, nodes = launched.nodes] {
		working->run_graph(*nodes);
		--launched.num_in_flight;
	};
	return enqueue(stream, "graph", nullptr, run, true);
}
EMULATED cuGraphExecDestroy(const cuda::executable_graph graph) {
	auto* const destroyed = reinterpret_cast<executable_graph_state*>(graph);
	if(destroyed->num_in_flight > 0) emulated_cuda::die("a graph is destroyed while a stream carries it out");
	delete destroyed;
	--num_graphs;
	return cuda::success;
}
EMULATED cuStreamSynchronize(const cuda::stream stream) {
	std::atomic<bool> is_done{false};
	enqueue(stream, "synchronize", nullptr, [&] { is_done = true; });
	while(!is_done) std::this_thread::yield();
	return cuda::success;
}
EMULATED cuEventCreate(cuda::event* const out, unsigned) {
	static std::mutex mutex;
	static std::deque<event_state> events; // those that have been destroyed as well: a queue may still know them
	const std::lock_guard lock(mutex);
	*out = reinterpret_cast<cuda::event>(&events.emplace_back());
	++num_events;
	return cuda::success;
}
EMULATED cuEventDestroy_v2(cuda::event) {
	--num_events;
	return cuda::success;
}
EMULATED cuEventRecord(const cuda::event event, const cuda::stream stream) {
	auto& state = state_of(event);
	state.captured_by = state_of(stream).capture != nullptr ? &state_of(stream) : nullptr;
	state.capture = state_of(stream).capture;
	state.nodes = state_of(stream).latest;
	if(state.capture != nullptr) return cuda::success;
	const std::uint64_t number = ++state.recorded;
	state.device = state_of(stream).operations.device;
	return enqueue(stream, "record", nullptr, [&state, number] { state.reached = number; });
}
EMULATED cuEventQuery(const cuda::event event) {
	const auto& state = state_of(event);
	if(const auto* const device = state.device.load(); device != nullptr && device->is_lost()) return 719; // CUDA_ERROR_LAUNCH_FAILED
	return state.reached >= state.recorded ? cuda::success : cuda::error_not_ready;
}
EMULATED cuEventElapsedTime(float* const out, cuda::event, cuda::event) {
	*out = 0;
	return cuda::success;
}
EMULATED cuStreamWaitEvent(const cuda::stream stream, const cuda::event event, unsigned) {
	const auto& state = state_of(event);
	if(state.capture != nullptr) return capture_wait(state_of(stream), state);
	const std::uint64_t number = state.recorded;
	return enqueue(stream, "a wait for an event", [&state, number] { return state.reached >= number; }, [] {});
}
EMULATED cuStreamBatchMemOp_v2(const cuda::stream stream, const unsigned count, cuda::memory_operation* const operations, unsigned) {
	if(count > 255) return 1; // CUDA_ERROR_INVALID_VALUE
	for(unsigned i = 0; i < count; ++i) {
		auto& word = *reinterpret_cast<std::uint32_t*>(operations[i].address);
		const auto value = static_cast<std::uint32_t>(operations[i].value);
		if(operations[i].kind == cuda::memory_operation_write) {
			++flag_writes;
			enqueue(stream, "a flag to write", nullptr, [&word, value] { std::atomic_ref(word).store(value, std::memory_order_release); });
		} else {
			const auto is_there = [&word, value] { return static_cast<std::int32_t>(std::atomic_ref(word).load(std::memory_order_acquire) - value) >= 0; };
			enqueue(stream, "a wait for a flag", is_there, [] {});
		}
	}
	return cuda::success;
}
EMULATED cuMemGetInfo_v2(std::size_t* const free_bytes, std::size_t* const total_bytes) {
	*free_bytes = *total_bytes = std::size_t{1} << 30;
	return cuda::success;
}
EMULATED cuMemAlloc_v2(device_pointer* const out, const std::size_t size_bytes) {
	*out = cuda::to_device_pointer(device_memory.take(size_bytes));
	return cuda::success;
}
EMULATED cuMemFree_v2(const device_pointer address) { return device_memory.give_back(at(address)); }
EMULATED cuMemAllocAsync(device_pointer* const out, const std::size_t size_bytes, const cuda::stream) {
	*out = cuda::to_device_pointer(device_memory.take(size_bytes));
	return cuda::success;
}
EMULATED cuMemFreeAsync(const device_pointer address, const cuda::stream stream) {
	if(state_of(stream).capture != nullptr) return cuda::success; // each launch of the graph uses it
	return enqueue(stream, "free", nullptr, [=] { device_memory.give_back(at(address)); });
}
EMULATED cuMemHostAlloc(void** const out, const std::size_t size_bytes, unsigned) {
	*out = host_memory.take(size_bytes);
	return cuda::success;
}
EMULATED cuMemFreeHost(void* const address) { return host_memory.give_back(address); }
EMULATED cuMemHostRegister_v2(void*, std::size_t, unsigned) {
	++num_registered;
	return cuda::success;
}
EMULATED cuMemHostUnregister(void*) {
	--num_registered;
	return cuda::success;
}
EMULATED cuMemHostGetDevicePointer_v2(device_pointer* const out, void* const address, unsigned) {
	*out = cuda::to_device_pointer(address);
	return cuda::success;
}
EMULATED cuMemcpyAsync(const device_pointer destination, const device_pointer source, const std::size_t size_bytes, const cuda::stream stream) {
	count_copy(destination, source);
	return enqueue(stream, "copy", nullptr, [=] { std::memcpy(at(destination), at(source), size_bytes); });
}
EMULATED cuMemcpy2DAsync_v2(const cuda::copy_2d* const copy, const cuda::stream stream) {
	count_copy(copy->destination_device, copy->source_device);
	return enqueue(stream, "copy of rows", nullptr, [c = *copy] {
		for(std::size_t row = 0; row < c.height; ++row) {
			std::memcpy(at(c.destination_device) + row * c.destination_pitch, at(c.source_device) + row * c.source_pitch, c.width_bytes);
		}
	});
}
EMULATED cuMemcpy3DAsync_v2(const cuda::copy_3d* const copy, const cuda::stream stream) {
	count_copy(copy->destination_device, copy->source_device);
	return enqueue(stream, "copy of planes", nullptr, [c = *copy] {
		for(std::size_t plane = 0; plane < c.depth; ++plane) {
			for(std::size_t row = 0; row < c.height; ++row) {
				std::memcpy(at(c.destination_device) + (plane * c.destination_height + row) * c.destination_pitch,
				    at(c.source_device) + (plane * c.source_height + row) * c.source_pitch, c.width_bytes);
			}
		}
	});
}
EMULATED cuMemsetD8Async(const device_pointer address, const unsigned char value, const std::size_t count, const cuda::stream stream) {
	return enqueue(stream, "fill", nullptr, [=] { std::memset(at(address), value, count); });
}
EMULATED cuMemsetD32Async(const device_pointer address, const unsigned value, const std::size_t count, const cuda::stream stream) {
	return enqueue(stream, "fill of words", nullptr, [=] { std::fill_n(reinterpret_cast<unsigned*>(address), count, value); });
}
EMULATED cuMemsetD2D8Async(const device_pointer address, const std::size_t pitch_bytes, const unsigned char value, const std::size_t width,
    const std::size_t height, const cuda::stream stream) {
	return enqueue(stream, "fill of rows", nullptr, [=] {
		for(std::size_t row = 0; row < height; ++row) std::memset(at(address) + row * pitch_bytes, value, width);
	});
}
EMULATED cuMemsetD2D32Async(const device_pointer address, const std::size_t pitch_bytes, const unsigned value, const std::size_t width,
    const std::size_t height, const cuda::stream stream) {
	return enqueue(stream, "fill of rows of words", nullptr, [=] {
		for(std::size_t row = 0; row < height; ++row) std::fill_n(reinterpret_cast<unsigned*>(at(address) + row * pitch_bytes), width, value);
	});
}
namespace {

operation make_launch(const emulated_cuda::function& function, void** const parameters) {
	std::vector<std::vector<std::byte>> copies;
	for(std::size_t i = 0; i < function.parameter_bytes.size(); ++i) {
		const auto* const bytes = static_cast<const std::byte*>(parameters[i]);
		copies.emplace_back(bytes, bytes + function.parameter_bytes[i]);
	}
	const auto call_with = [](auto* const called, const auto& bytes) {
		std::vector<void*> pointers;
		for(const auto& copy : bytes) pointers.push_back(const_cast<std::byte*>(copy.data()));
		return called(pointers.data());
	};
	std::function<bool()> may_go;
	if(function.may_go != nullptr) may_go = [=, &function] { return call_with(function.may_go, copies); };
	return {function.may_go != nullptr ? "a kernel that waits" : "kernel", std::move(may_go), [=, &function] { call_with(function.run, copies); }, false};
}

} // namespace

EMULATED cuLaunchKernel(const cuda::function handle, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, const cuda::stream stream,
    void** const parameters, void**) {
	const auto& function = *reinterpret_cast<const emulated_cuda::function*>(handle);
	count_launch(function, state_of(stream));
	auto launch = make_launch(function, parameters);
	return enqueue(stream, launch.name, std::move(launch.may_go), std::move(launch.run));
}
EMULATED cuGraphExecKernelNodeSetParams_v2(const cuda::executable_graph graph, const cuda::graph_node node, const cuda::kernel_parameters* const parameters) {
	auto& changed = *reinterpret_cast<executable_graph_state*>(graph);
	if(index_of(node) >= changed.nodes->size() || !is_live(changed.source)) return 1; // CUDA_ERROR_INVALID_VALUE
	auto nodes = std::make_shared<std::vector<graph_state::node>>(*changed.nodes);
	auto& what = nodes->at(index_of(node)).what;
	if(what.name != std::string("kernel")) return 1; // CUDA_ERROR_INVALID_VALUE
	what = make_launch(*reinterpret_cast<const emulated_cuda::function*>(parameters->function), parameters->values);
	changed.nodes = std::move(nodes);
	++changed_nodes;
	return cuda::success;
}
EMULATED cuIpcGetMemHandle(cuda::ipc_handle* const out, const device_pointer address) {
	if(current == nullptr) return 201; // CUDA_ERROR_INVALID_CONTEXT
	std::memset(out, 0, sizeof *out);
	std::memcpy(out, &address, sizeof address);
	return cuda::success;
}
EMULATED cuIpcOpenMemHandle_v2(device_pointer* const out, const cuda::ipc_handle handle, unsigned) { // within the process that made it
	std::memcpy(out, &handle, sizeof *out);
	++num_opened;
	return cuda::success;
}
EMULATED cuIpcCloseMemHandle(device_pointer) {
	--num_opened;
	return cuda::success;
}

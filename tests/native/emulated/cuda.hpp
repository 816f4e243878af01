// SPDX-License-Identifier: MIT
// A CUDA driver that keeps the promises of streams, events and flags, and no others, without a GPU. It is a library of its own, libcuda.so.1, and has what
// our cuda_driver.hpp asks for.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace emulated_cuda {

/// The target of a function's handle. A launch copies its parameters.
struct function {
	std::vector<std::size_t> parameter_bytes;
	void (*run)(void* const* parameters) = nullptr;
	/// Of a kernel that waits for somebody: whether it is through with that. It keeps its queue until then.
	bool (*may_go)(void* const* parameters) = nullptr;
};

struct settings {
	int num_devices = 4;
	/// Streams of a device share so many queues, in each of which everything happens in the order in which it was enqueued.
	std::size_t num_queues = 32;
	/// Whoever enqueues more blocks until there is room.
	std::size_t queue_depth = 1024;
	/// To instantiate a graph waits until all queues of the device are empty.
	bool instantiation_waits = false;
	std::uint32_t seed = 1;
	/// Of each device. A part has 8, 12, 16 … of them, and leaves 6 at least.
	unsigned num_multiprocessors = 30;
	/// The driver has green contexts, and makes none.
	bool refuses_parts = false;
};

/// Before anything is enqueued.
__attribute__((visibility("default"))) void configure(const settings& values);
/// While held, devices from the first one on begin nothing: whatever could be waited for is waited for.
__attribute__((visibility("default"))) void hold(bool is_held, int first_device = 0);
/// In a kernel: its context is lost. Nothing of its device runs any more, and whoever asks for an event is told.
__attribute__((visibility("default"))) void trap();
__attribute__((visibility("default"))) bool is_lost(int device);
/// A kernel writes a flag.
__attribute__((visibility("default"))) void count_flag_write();
/// Words that streams have been told to write, and that kernels have written, in all.
__attribute__((visibility("default"))) std::uint64_t num_flag_writes();
/// Copies from or to memory that is not of a device, as they were enqueued.
__attribute__((visibility("default"))) std::uint64_t num_host_copies();
/// Graphs that have been instantiated and not destroyed.
__attribute__((visibility("default"))) int num_live_graphs();
/// Graphs that have been instantiated so far, and launches of graphs.
__attribute__((visibility("default"))) int num_graphs_made();
__attribute__((visibility("default"))) int num_graph_launches();
/// Kernels of graphs that have been told of other parameters.
__attribute__((visibility("default"))) int num_changed_nodes();

/// Streams made so far with a priority, where 0 is the least and 5 the greatest one.
__attribute__((visibility("default"))) int num_streams_made(int priority);
/// Kernels of graphs that have been given a priority, likewise.
__attribute__((visibility("default"))) int num_nodes_made(int priority);

/// Launches of a function so far, on streams and into graphs, by the number of multiprocessors of the stream's part; 0: streams of whole devices.
__attribute__((visibility("default"))) std::map<unsigned, int> num_launches(const function& launched);

/// What has been allocated, made, opened or registered, and not given back.
struct holdings {
	std::size_t device_bytes = 0, host_bytes = 0;
	int streams = 0, events = 0, graphs = 0, opened = 0, registered = 0, parts = 0;

	bool operator==(const holdings&) const = default;
};
__attribute__((visibility("default"))) holdings held();
/// Writes to stderr which operations the queues of all devices wait for.
__attribute__((visibility("default"))) void describe();
/// Writes the text and the same to stderr, and aborts.
[[noreturn]] __attribute__((visibility("default"))) void die(const std::string& what);

} // namespace emulated_cuda

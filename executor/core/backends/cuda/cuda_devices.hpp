// SPDX-License-Identifier: MIT
// The GPUs of a rank: their contexts, and their memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "cuda_driver.hpp"
#include "cuda_reductions.hpp"
#include "cuda_small_copies.hpp"
#include "memory/slab_arena.hpp"
#include "scheduler/core/base/ids.hpp"
#include "scheduler/core/vocabulary/trace_recorder.hpp"

namespace celerity {

/// Per device.
inline constexpr std::uint32_t max_compute_lanes = 12;

struct cuda_options {
	std::vector<int> ordinals;  ///< of this rank's devices, as the driver counts them
	std::uint32_t compute_lanes = max_compute_lanes; ///< per device; at most so many
	std::size_t most_memory_bytes = 0; ///< of each device, for buffers; 0: all that there is
	bool may_spin = true;            ///< there are cores for all threads
	trace_recorder* trace = nullptr; ///< null: there is no timeline
	bool graphs = false;             ///< whole periods of replays run as graphs; not with a timeline, nor with kernels that check bounds
	std::vector<cuda_small_copies::functions> small_copies; ///< per device; empty: copy engines move all
	std::shared_ptr<const cuda_reductions> reductions = nullptr; ///< kernels may be added later; null: the planner lets no device reduce
	/// Kernels of graphs wait for other ranks. Not where ranks share a GPU: while one of them waits so, the others cannot run.
	bool graphs_exchange = false;
	/// Makes other libraries of this process give back device memory that they keep and do not use. Null: there are none.
	std::function<void(int ordinal)> release_cached_memory;
};

/// The facts about the devices of this rank that the planner needs.
struct cuda_topology {
	bool all_peers = true;                 ///< every device reaches the memory of every other one
	std::size_t smallest_memory_bytes = 0; ///< of any device, used or free
	std::vector<std::uint8_t> link_grades; ///< see `system_capabilities`
};

struct cuda_device {
	int ordinal = 0;
	cuda::device handle = 0;
	cuda::context context = nullptr;
	cuda::stream utility = nullptr; ///< for work that the host waits for
	std::unique_ptr<slab_arena> arena;
};

/// Constant, but for the arenas.
class cuda_devices {
  public:
	/// Throws std::runtime_error.
	cuda_devices(const cuda::driver& driver, std::span<const int> ordinals, std::size_t most_memory_bytes);

	/// May be called without devices. Throws std::runtime_error.
	static cuda_topology probe(std::span<const int> ordinals);

	std::size_t size() const { return m_devices.size(); }
	const cuda_device& operator[](const std::size_t index) const { return m_devices[index]; }
	const cuda_device& front() const { return m_devices.front(); }
	auto begin() const { return m_devices.begin(); }
	auto end() const { return m_devices.end(); }
	const cuda_device& of(const memory_id memory) const { return m_devices.at(device_of(memory).value); }
	const cuda::driver& driver() const { return m_driver; }

	/// The current context is not remembered, because CuPy changes it too. The call costs nothing if the context is current already.
	void make_current(const cuda::context context) const { m_driver.check(m_driver.context_set_current(context), "cuCtxSetCurrent"); }
	/// Of memory of a device. Returns when that is done.
	void fill(memory_id memory, void* address, std::size_t size_bytes, unsigned char value) const;
	/// A GPU with a display ends kernels that run for seconds.
	bool may_kernels_wait() const;
	/// Gives all memory back. Nothing runs on the devices.
	void release();

  private:
	const cuda::driver& m_driver;
	const std::size_t m_most_memory_bytes;
	std::vector<cuda_device> m_devices;

	void add(int ordinal);
	void enable_peers();
};

} // namespace celerity

// SPDX-License-Identifier: MIT
// Transfers between the GPUs of this rank and those of other ranks of the host.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <unordered_map>
#include <utility>
#include <vector>

#include "cuda_devices.hpp"
#include "cuda_issuer.hpp"
#include "cuda_lanes.hpp"
#include "cuda_signals.hpp"
#include "devices/direct_transfers.hpp"

namespace celerity {

class cuda_ranks final : public direct_transfers {
  public:
	cuda_ranks(const cuda_devices& devices, const cuda_lanes& lanes, cuda_issuer& issuer)
	    : m_driver(devices.driver()), m_devices(devices), m_lanes(lanes), m_issuer(issuer) {}

	bool signals_flags() const override { return false; }
	std::uint32_t pull_class(const memory_id to) const override { return m_lanes.pull_class(to); }
	std::uint32_t signal_class(const memory_id from) const override { return m_lanes.signal_class(from); }
	shared_location locate(memory_id memory, const void* address) const override;
	void* open_peer_slab(const shared_location& location) override;
	void close_peers() override;
	void adopt_flags(void* address, std::size_t size_bytes) override;
	void enqueue_signal(lane_position position, const lane_waits& waits, const shared_flag& flag, bool depends_on_one) override;
	void flush() override;
	void enqueue_pulls(lane_position position, const lane_waits& waits, std::span<const pull_operation> pulls) override;

	/// Whether another rank may have mapped the slab of the memory's arena.
	bool is_shared(const memory_id memory, const std::size_t slab) const { return m_handles.contains(slab_number(memory, slab)); }
	/// Nothing runs on the devices.
	void release();

  private:
	const cuda::driver& m_driver;
	const cuda_devices& m_devices;
	const cuda_lanes& m_lanes;
	cuda_issuer& m_issuer;
	mutable std::unordered_map<std::uint64_t, cuda::ipc_handle> m_handles; // of our slabs, by slab number
	std::map<std::array<std::byte, 64>, void*> m_opened; // slabs of peers, by handle
	std::vector<std::pair<void*, std::size_t>> m_adopted;
	cuda_signals m_kept_signals; // until flush()

	/// Of a slab, within this process.
	static std::uint64_t slab_number(const memory_id memory, const std::size_t index) { return (std::uint64_t{memory.value} << 32) | index; }
};

} // namespace celerity

// SPDX-License-Identifier: MIT
// Flags that streams write, and flags that they wait for.
#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "devices/direct_transfers.hpp"
#include "cuda_driver.hpp"
#include "cuda_lane.hpp"
#include "scheduler/core/base/small_vector.hpp"

namespace celerity {

/// In one call: that takes the GPU less time, too. `kind` is a kind of memory_operation.
void enqueue_flags(const cuda::driver& driver, cuda::stream stream, int kind, std::span<const shared_flag> flags);

/// Signals of lanes of one device that depend on one position and on nothing else. They go together and, if they can, onto the stream of the producer: that
/// saves the way of an event from one stream to another.
class cuda_signals {
  public:
	struct signal {
		lane_position position;
		shared_flag flag; ///< without address if another signal writes it
	};

	/// False if it does not go with those that are there.
	bool add(const lane_position& producer, std::uint32_t device, const signal& added);

	bool is_empty() const { return m_signals.empty(); }
	/// Of the first signal.
	lane_position position() const { return m_signals.front().position; }
	const lane_position& producer() const { return m_producer; }
	auto begin() const { return m_signals.begin(); }
	auto end() const { return m_signals.end(); }

	/// That have to be written.
	small_vector<shared_flag, 8> flags() const;
	/// The positions of the signals follow that of the producer.
	void follow_producer(std::span<const std::unique_ptr<cuda_lane>> lanes) const;
	/// Writes all flags on the stream of the producer, whose positions those of the signals then follow. False, with nothing done, if something else has
	/// followed the producer there, or it is on another device. `lanes` by index. The thread that issues for the device of the signals.
	bool write_behind_producer(const cuda::driver& driver, std::span<const std::unique_ptr<cuda_lane>> lanes) const;

  private:
	lane_position m_producer;
	std::uint32_t m_device = 0;
	small_vector<signal, 4> m_signals;
};

} // namespace celerity

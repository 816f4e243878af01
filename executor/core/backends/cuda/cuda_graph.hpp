// SPDX-License-Identifier: MIT
#pragma once

#include <atomic>

#include "backends/backend.hpp"
#include "cuda_driver.hpp"

namespace celerity {

/// A CUDA graph that can be launched.
class cuda_graph final : public operation_graph {
  public:
	/// `is_cancelled` outlives the graph. Once it is set, the graph is left to the end of the process: operations may still run.
	cuda_graph(const cuda::driver& driver, const cuda::executable_graph handle, const std::atomic<bool>& is_cancelled)
	    : m_driver(driver), m_handle(handle), m_is_cancelled(is_cancelled) {}
	~cuda_graph() override {
		if(!m_is_cancelled.load(std::memory_order_relaxed)) m_driver.executable_graph_destroy(m_handle);
	}

	cuda::executable_graph handle() const { return m_handle; }

  private:
	const cuda::driver& m_driver;
	cuda::executable_graph m_handle;
	const std::atomic<bool>& m_is_cancelled;
};

} // namespace celerity

// SPDX-License-Identifier: MIT
// Memory that other processes of the host can map. It has no name in any file system, and goes with the last process that maps it, however that process ends.
#pragma once

#include <cstddef>
#include <string>

namespace celerity {

class shared_memory {
  public:
	shared_memory() = default;
	shared_memory(shared_memory&& other) noexcept;
	shared_memory& operator=(shared_memory&& other) noexcept;
	shared_memory(const shared_memory&) = delete;
	shared_memory& operator=(const shared_memory&) = delete;
	~shared_memory();

	/// Zeroes, backed by pages as they are touched. Throws std::bad_alloc.
	static shared_memory create(std::size_t size_bytes);
	/// Maps memory that another process has created and still holds. Throws std::runtime_error.
	static shared_memory open(const std::string& path, std::size_t size_bytes);

	void* address() const { return m_address; }
	std::size_t size_bytes() const { return m_size_bytes; }
	/// For open() in another process of this user; at most 63 characters.
	const std::string& path() const { return m_path; }

  private:
	void* m_address = nullptr;
	std::size_t m_size_bytes = 0;
	int m_file = -1; ///< of the creator
	std::string m_path;

	void close();
};

} // namespace celerity

// SPDX-License-Identifier: MIT
#include "shared_memory.hpp"

#include <cerrno>
#include <cstring>
#include <new>
#include <stdexcept>
#include <utility>

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

namespace celerity {

namespace {

/// Closes the file on every way out, unless the file is taken.
struct file_guard {
	int file;
	~file_guard() {
		if(file >= 0) ::close(file);
	}
	int take() { return std::exchange(file, -1); }
};

[[noreturn]] void fail(const std::string& what) { throw std::runtime_error(what + ": " + std::strerror(errno)); }

} // namespace

shared_memory::shared_memory(shared_memory&& other) noexcept { *this = std::move(other); }

shared_memory& shared_memory::operator=(shared_memory&& other) noexcept {
	if(this == &other) return *this;
	close();
	m_address = std::exchange(other.m_address, nullptr);
	m_size_bytes = std::exchange(other.m_size_bytes, 0);
	m_file = std::exchange(other.m_file, -1);
	m_path = std::exchange(other.m_path, {});
	return *this;
}

shared_memory::~shared_memory() { close(); }

void shared_memory::close() {
	if(m_address != nullptr) ::munmap(m_address, m_size_bytes);
	if(m_file >= 0) ::close(m_file);
}

shared_memory shared_memory::create(const std::size_t size_bytes) {
	file_guard file{::memfd_create("celerity_py", MFD_CLOEXEC)};
	if(file.file < 0 || ::ftruncate(file.file, static_cast<off_t>(size_bytes)) != 0) throw std::bad_alloc();
	void* const address = ::mmap(nullptr, size_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file.file, 0);
	if(address == MAP_FAILED) throw std::bad_alloc();
	shared_memory memory;
	memory.m_address = address;
	memory.m_size_bytes = size_bytes;
	memory.m_file = file.take();
	memory.m_path = "/proc/" + std::to_string(::getpid()) + "/fd/" + std::to_string(memory.m_file);
	return memory;
}

shared_memory shared_memory::open(const std::string& path, const std::size_t size_bytes) {
	const file_guard file{::open(path.c_str(), O_RDWR | O_CLOEXEC)};
	if(file.file < 0) fail("opening " + path);
	struct stat status{};
	if(::fstat(file.file, &status) != 0) fail("looking at " + path);
	if(static_cast<std::size_t>(status.st_size) != size_bytes) throw std::runtime_error(path + " is not the memory that was announced");
	void* const address = ::mmap(nullptr, size_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file.file, 0);
	if(address == MAP_FAILED) fail("mapping " + path);
	shared_memory memory;
	memory.m_address = address;
	memory.m_size_bytes = size_bytes;
	memory.m_path = path;
	return memory;
}

} // namespace celerity

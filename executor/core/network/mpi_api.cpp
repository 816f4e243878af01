// SPDX-License-Identifier: MIT
#include "mpi_api.hpp"

#include <dlfcn.h>

#include <cstring>

#include "message_port.hpp"

namespace celerity {

namespace {

template <typename Handle>
Handle read_handle(const std::uintptr_t address) {
	Handle handle;
	std::memcpy(&handle, reinterpret_cast<const void*>(address), sizeof handle);
	return handle;
}

/// Only the module and the libraries that it needs are searched. Another MPI in this process has handles of another kind.
class symbols {
  public:
	explicit symbols(const std::string& path) : m_module(dlopen(path.c_str(), RTLD_NOW | RTLD_NOLOAD)) {
		if(m_module == nullptr) throw network_failure(path + " is not loaded");
	}
	symbols(const symbols&) = delete;
	symbols& operator=(const symbols&) = delete;
	~symbols() { dlclose(m_module); }

	template <typename Function>
	void find(Function*& function, const char* const name) {
		void* const address = dlsym(m_module, name);
		std::memcpy(&function, &address, sizeof address);
		if(address == nullptr) m_missing += std::string(m_missing.empty() ? "" : ", ") + name;
	}
	void check(const std::string& path) const {
		if(!m_missing.empty()) throw network_failure("the library of " + path + " has no function " + m_missing);
	}

  private:
	void* m_module;
	std::string m_missing;
};

} // namespace

template <typename Handle>
mpi_api<Handle>::mpi_api(const mpi_settings& settings)
    : undefined(settings.undefined), status_bytes(settings.status_bytes), largest_error_text(settings.largest_error_text) {
	symbols library(settings.module_path);
	library.find(isend, "MPI_Isend");
	library.find(irecv, "MPI_Irecv");
	library.find(recv_init, "MPI_Recv_init");
	library.find(start, "MPI_Start");
	library.find(test, "MPI_Test");
	library.find(testsome, "MPI_Testsome");
	library.find(wait, "MPI_Wait");
	library.find(cancel, "MPI_Cancel");
	library.find(request_free, "MPI_Request_free");
	library.find(ibarrier, "MPI_Ibarrier");
	library.find(ialltoall, "MPI_Ialltoall");
	library.find(type_contiguous, "MPI_Type_contiguous");
	library.find(type_create_hvector, "MPI_Type_create_hvector");
	library.find(type_create_struct, "MPI_Type_create_struct");
	library.find(type_commit, "MPI_Type_commit");
	library.find(type_free, "MPI_Type_free");
	library.find(error_string, "MPI_Error_string");
	library.check(settings.module_path);
	communicator = read_handle<Handle>(settings.communicator);
	words = {
	    read_handle<Handle>(settings.byte), read_handle<Handle>(settings.word16), read_handle<Handle>(settings.word32), read_handle<Handle>(settings.word64)};
}

template <typename Handle>
void mpi_api<Handle>::fail(const int status, const char* const function) const {
	std::string text(largest_error_text + 1, '\0');
	int length = 0;
	if(error_string(status, text.data(), &length) != 0) length = 0;
	text.resize(static_cast<std::size_t>(length));
	throw network_failure(std::string(function) + " failed: " + (text.empty() ? "error " + std::to_string(status) : text));
}

template struct mpi_api<int>;
template struct mpi_api<void*>;

} // namespace celerity

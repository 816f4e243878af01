// SPDX-License-Identifier: MIT
// Lets NumPy take the memory of large arrays from `temporary_memory` while a user function runs (NEP 49).
#include <nanobind/nanobind.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>

#include "bindings.hpp"
#include "temporary_memory.hpp"

namespace nb = nanobind;

namespace celerity::native {
namespace {

/// `PyDataMemAllocator` and `PyDataMem_Handler` of NumPy's C interface, version 1. Declared here, so that a build needs no headers of NumPy.
struct numpy_allocator {
	void* context;
	void* (*malloc)(void* context, std::size_t size);
	void* (*calloc)(void* context, std::size_t count, std::size_t item_size);
	void* (*realloc)(void* context, void* address, std::size_t size);
	void (*free)(void* context, void* address, std::size_t size);
};

struct numpy_handler {
	std::array<char, 127> name;
	std::uint8_t version;
	numpy_allocator allocator;
};

/// The places of two functions in the table of NumPy's C interface; its binary interface promises that they stay.
constexpr std::size_t place_of_set_handler = 304;
constexpr std::size_t place_of_get_handler = 305;

/// Never destroyed: arrays may live until the process ends.
temporary_memory& memory() {
	static auto* const instance = new temporary_memory;
	return *instance;
}

/// Of small arrays: NumPy keeps the memory of the smallest itself.
numpy_allocator& default_allocator() {
	static numpy_allocator allocator{};
	return allocator;
}

void* allocate(void* /* context */, const std::size_t size) {
	const auto& small = default_allocator();
	if(size < temporary_memory::smallest_block) return small.malloc(small.context, size);
	const auto block = memory().take(size);
	return block ? block->address : nullptr;
}

void* allocate_zeros(void* /* context */, const std::size_t count, const std::size_t item_size) {
	const auto& small = default_allocator();
	if(item_size == 0 || count < temporary_memory::smallest_block / item_size || count > SIZE_MAX / item_size) {
		return small.calloc(small.context, count, item_size);
	}
	const auto block = memory().take(count * item_size);
	if(!block) return nullptr;
	if(!block->is_new) std::memset(block->address, 0, count * item_size);
	return block->address;
}

void free_memory(void* /* context */, void* const address, const std::size_t size) {
	if(size >= temporary_memory::smallest_block && memory().give_back(address)) return;
	const auto& small = default_allocator();
	small.free(small.context, address, size);
}

/// An array that shrinks below the smallest block leaves its block, since `free_memory` asks for blocks by size.
void* reallocate(void* const context, void* const address, const std::size_t size) {
	const auto& small = default_allocator();
	const auto capacity = memory().find_capacity(address);
	if(!capacity) return small.realloc(small.context, address, size);
	if(size >= temporary_memory::smallest_block && size <= *capacity) return address;
	void* const target = allocate(context, size);
	if(target == nullptr) return nullptr;
	std::memcpy(target, address, std::min(size, *capacity));
	memory().give_back(address);
	return target;
}

using set_handler_function = PyObject* (*)(PyObject*);
using get_handler_function = PyObject* (*)();

struct numpy_functions {
	set_handler_function set_handler;
	get_handler_function get_handler;
	PyObject* capsule;
};

/// NumPy 2 has renamed its core.
nb::object import_core() {
	try {
		return nb::module_::import_("numpy._core._multiarray_umath");
	} catch(const nb::python_error&) { return nb::module_::import_("numpy.core._multiarray_umath"); }
}

numpy_functions prepare() {
	const nb::object table = import_core().attr("_ARRAY_API");
	auto* const functions = static_cast<void**>(PyCapsule_GetPointer(table.ptr(), nullptr));
	if(functions == nullptr) throw nb::python_error();
	const auto get_handler = reinterpret_cast<get_handler_function>(functions[place_of_get_handler]);
	const nb::object own = nb::steal(get_handler());
	const auto* const defaults = static_cast<const numpy_handler*>(PyCapsule_GetPointer(own.ptr(), "mem_handler"));
	if(defaults == nullptr) throw nb::python_error();
	default_allocator() = defaults->allocator;
	static numpy_handler handler{{"celerity_py"}, 1, {nullptr, &allocate, &allocate_zeros, &reallocate, &free_memory}};
	PyObject* const capsule = PyCapsule_New(&handler, "mem_handler", nullptr);
	if(capsule == nullptr) throw nb::python_error();
	return {reinterpret_cast<set_handler_function>(functions[place_of_set_handler]), get_handler, capsule};
}

const numpy_functions& functions() {
	static const numpy_functions instance = prepare();
	return instance;
}

void keep_temporary_memory() {
	const auto& numpy = functions();
	const nb::object current = nb::steal(numpy.get_handler());
	if(current.is(numpy.capsule)) return; // a call on a thread that has made one before; setting it again costs seven times as much
	if(!current) throw nb::python_error();
	PyObject* const previous = numpy.set_handler(numpy.capsule);
	if(previous == nullptr) throw nb::python_error();
	Py_DECREF(previous);
}

} // namespace

void bind_temporary_memory(nb::module_& m) {
	functions(); // a thread that waited for the first call of another one would hold the interpreter lock
	m.def("keep_temporary_memory", &keep_temporary_memory,
	    R"(In the current context, take the memory of new NumPy arrays of 64 KiB and more from blocks that are kept when arrays die.

A new page of memory costs a fault at its first write, which takes longer than the arithmetic on it. The blocks in use and the kept ones together have
at most as many bytes as were in use at once. The setting is a context variable of NumPy (NEP 49). Any thread may call this.)");
	m.def("release_temporary_memory", [] { memory().release(); }, "Give the kept blocks back to the operating system. Any thread may call this.");
	m.def("kept_temporary_bytes", [] { return memory().kept_bytes(); }, "The bytes of kept blocks that no array uses.");
}

} // namespace celerity::native

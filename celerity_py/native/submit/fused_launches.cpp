// SPDX-License-Identifier: MIT
#include "submit/fused_launches.hpp"

#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/vector.h>

#include <array>
#include <bit>
#include <cstdint>
#include <utility>

#include "scheduler/core/geometry/digest.hpp"
#include "scheduler/core/graphs/access_checks.hpp"
#include "submit/records.hpp"

namespace nb = nanobind;

namespace celerity::native {

namespace {

/// Whether two plain arguments of the same type are the same to a function that reads them. Runs no code of the program. If unsure, this says no.
bool is_same(PyObject* const a, PyObject* const b) {
	if(a == b) return true;
	if(PyFloat_CheckExact(a) && PyFloat_CheckExact(b))
		return std::bit_cast<std::uint64_t>(PyFloat_AS_DOUBLE(a)) == std::bit_cast<std::uint64_t>(PyFloat_AS_DOUBLE(b));
	const bool are_comparable = (PyLong_CheckExact(a) && PyLong_CheckExact(b)) || (PyUnicode_CheckExact(a) && PyUnicode_CheckExact(b));
	return are_comparable && PyObject_RichCompareBool(a, b, Py_EQ) == 1;
}

constexpr std::size_t max_packed = 16;

std::vector<std::byte> bytes_of(const nb::object& bytes) {
	const auto* const begin = reinterpret_cast<const std::byte*>(PyBytes_AS_STRING(bytes.ptr()));
	return {begin, begin + PyBytes_GET_SIZE(bytes.ptr())};
}

template <typename Accesses>
std::size_t first_with(const Accesses& accesses, const buffer_id id) {
	std::size_t place = 0;
	while(accesses[place].buffer != id) ++place;
	return place;
}

} // namespace

fused_launches::fused_launches(const scheduler& owner, const task& node, const nb::handle args, const nb::object& prepared) {
	const nb::object plan = prepared[0];
	known one;
	one.accesses = accesses_of(owner, node);
	for(Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(args.ptr()); ++i) {
		PyObject* const value = PySequence_Fast_GET_ITEM(args.ptr(), i);
		one.values.push_back(record_type<port_record>::is_instance(value) ? nb::object() : nb::borrow(value));
	}
	one.scalars = bytes_of(prepared[1]);
	const nb::object packing = plan.attr("scalars").attr("packing");
	if(!packing.is_none()) {
		one.pack = packing[0];
		one.packed = nb::cast<std::vector<std::size_t>>(packing[1]);
		if(one.packed.size() > max_packed) one.pack.reset();
	}
	one.is_fixed.resize(one.values.size());
	for(const nb::handle position : plan.attr("fixed")) one.is_fixed.at(nb::cast<std::size_t>(position)) = true;
	const nb::object outside = plan.attr("outside");
	if(!outside.is_none()) {
		one.watch = nb::cast<const value_watch*>(outside.attr("native"));
		one.is_watched_natively = nb::cast<bool>(outside.attr("is_native"));
	}
	one.plan = nb::steal(PyWeakref_NewRef(plan.ptr(), nullptr));
	if(!one.plan) throw nb::python_error();
	m_known.emplace_back(node.geometry.global, std::make_shared<const known>(std::move(one)));
}

void fused_launches::add(fused_launches&& newer) {
	const auto taken = std::move(newer.m_known);
	std::vector<std::pair<box, std::shared_ptr<const known>>> forgotten; // destroyed last: destructors may do anything
	m_known.insert(m_known.end(), taken.begin(), taken.end());
	while(m_known.size() > max_known) {
		forgotten.push_back(std::move(m_known.front()));
		m_known.erase(m_known.begin());
	}
}

std::vector<fused_launches::accessed_buffer> fused_launches::accesses_of(const scheduler& owner, const task& node) {
	std::vector<accessed_buffer> result;
	result.reserve(node.accesses.size());
	for(const auto& access : node.accesses) {
		digest mapper;
		access.mapper.add_to(mapper);
		result.push_back({access.buffer, owner.find_buffer(access.buffer).extents, mapper.value()});
	}
	return result;
}

bool fused_launches::are_same(const std::vector<accessed_buffer>& a, const std::vector<accessed_buffer>& b) {
	for(std::size_t i = 0; i < a.size(); ++i) {
		if(a[i].mapper != b[i].mapper || a[i].extents != b[i].extents) return false;
		if(first_with(a, a[i].buffer) != first_with(b, b[i].buffer)) return false; // other accesses have this buffer as well
	}
	return true;
}

std::vector<std::byte> fused_launches::scalars_of(const known& one, const nb::object& plan, const nb::handle args) {
	if(one.pack) {
		std::array<PyObject*, max_packed> values;
		for(std::size_t i = 0; i < one.packed.size(); ++i) values[i] = PySequence_Fast_GET_ITEM(args.ptr(), static_cast<Py_ssize_t>(one.packed[i]));
		const nb::object packed = nb::steal(PyObject_Vectorcall(one.pack.ptr(), values.data(), one.packed.size(), nullptr));
		if(packed) return bytes_of(packed);
		if(PyErr_ExceptionMatches(PyExc_MemoryError) != 0) throw nb::python_error();
		PyErr_Clear(); // a value that does not fit: Python converts it, or says so
	}
	return bytes_of(plan.attr("scalars").attr("bytes_of")(args));
}

bool fused_launches::has_same_outside(const known& one, const nb::object& plan) {
	if(one.watch == nullptr) return true;
	if(one.watch->has_moved()) return false;
	return one.is_watched_natively || plan.attr("outside").attr("find_moved")().is_none();
}

std::optional<native_launch> fused_launches::find(const scheduler& owner, const task& node, const nb::handle args) const {
	std::vector<accessed_buffer> accesses;
	try {
		accesses = accesses_of(owner, node);
	} catch(const access_pattern_error&) {
		return std::nullopt; // the submit finds the same, and says so
	}
	std::size_t num_moved = 0;
	for(std::size_t place = m_known.size(); place-- > 0;) {
		if(m_known[place].first != node.geometry.global) continue;
		const auto one = m_known[place].second; // a look at values may run code of Python, and another thread
		if(!are_same(accesses, one->accesses)) continue;
		bool is_same_call = true, has_same_scalars = true;
		for(std::size_t i = 0; i < one->values.size() && is_same_call; ++i) {
			if(!one->values[i] || is_same(one->values[i].ptr(), PySequence_Fast_GET_ITEM(args.ptr(), static_cast<Py_ssize_t>(i)))) continue;
			has_same_scalars = false;
			is_same_call = !one->is_fixed[i];
		}
		const nb::object plan = is_same_call ? one->plan() : nb::none();
		if(plan.is_none()) continue;
		if(!has_same_outside(*one, plan)) {
			if(++num_moved == max_moved || place > m_known.size()) break;
			continue;
		}
		auto kernel = nb::cast<std::shared_ptr<native_kernel>>(plan.attr("native"));
		if(has_same_scalars) return native_launch{std::move(kernel), one->scalars, node.geometry.global};
		return native_launch{std::move(kernel), scalars_of(*one, plan, args), node.geometry.global};
	}
	return std::nullopt;
}

} // namespace celerity::native

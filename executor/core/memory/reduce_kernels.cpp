// SPDX-License-Identifier: MIT
#include "reduce_kernels.hpp"

#include <cmath>
#include <complex>
#include <cstdint>
#include <cstring>
#include <limits>
#include <stdexcept>
#include <string>
#include <type_traits>

namespace celerity {

namespace {

template <typename T>
inline constexpr bool is_complex = false;
template <typename T>
inline constexpr bool is_complex<std::complex<T>> = true;

/// One byte that is 0 or 1; C++ bool has no arithmetic of its own.
struct boolean {
	std::uint8_t value;
};

// Small types are promoted to int, where a product of two uint16 overflows; in uint64 everything wraps as it should.
template <typename T>
T wrap(const std::uint64_t value) {
	return static_cast<T>(value);
}
template <typename T>
std::uint64_t widen(const T value) {
	return static_cast<std::uint64_t>(value);
}

template <typename T>
bool is_nan(const T& a) {
	if constexpr(is_complex<T>) {
		return std::isnan(a.real()) || std::isnan(a.imag());
	} else if constexpr(std::is_floating_point_v<T>) {
		return std::isnan(a);
	} else {
		return false;
	}
}

template <typename T>
bool is_less(const T& a, const T& b) {
	if constexpr(is_complex<T>) {
		return a.real() < b.real() || (a.real() == b.real() && a.imag() < b.imag());
	} else {
		return a < b;
	}
}

template <typename T>
T add(const T& a, const T& b) {
	if constexpr(std::is_integral_v<T>) {
		return wrap<T>(widen(a) + widen(b));
	} else {
		return a + b;
	}
}

template <typename T>
T multiply(const T& a, const T& b) {
	if constexpr(std::is_integral_v<T>) {
		return wrap<T>(widen(a) * widen(b));
	} else if constexpr(is_complex<T>) {
		// operator* of std::complex repairs infinities, which NumPy does not
		return {a.real() * b.real() - a.imag() * b.imag(), a.real() * b.imag() + a.imag() * b.real()};
	} else {
		return a * b;
	}
}

/// Its bits do not depend on the order: -0 is smaller than 0, and all NaN are one. The device header does the same.
template <bool IsMinimum, typename T>
T extremum(const T& a, const T& b) {
	if constexpr(std::is_floating_point_v<T>) {
		if(is_nan(a) || is_nan(b)) return std::numeric_limits<T>::quiet_NaN();
		if(a == b) return std::signbit(a) == IsMinimum ? a : b;
	} else if(is_nan(a) || is_nan(b)) {
		return is_nan(a) ? a : b;
	}
	return is_less(a, b) == IsMinimum ? a : b;
}

template <typename T>
T combine(const reduction_op op, const T& a, const T& b) {
	switch(op) {
	case reduction_op::sum: return add(a, b);
	case reduction_op::prod: return multiply(a, b);
	case reduction_op::min: return extremum<true>(a, b);
	case reduction_op::max: return extremum<false>(a, b);
	case reduction_op::logical_and: return static_cast<T>(a != T{} && b != T{} ? 1 : 0);
	case reduction_op::logical_or: return static_cast<T>(a != T{} || b != T{} ? 1 : 0);
	case reduction_op::bitwise_xor:
		if constexpr(std::is_integral_v<T>) return wrap<T>(widen(a) ^ widen(b));
		break;
	case reduction_op::callable: break;
	}
	return a;
}

boolean combine(const reduction_op op, const boolean a, const boolean b) {
	switch(op) {
	case reduction_op::sum:
	case reduction_op::max:
	case reduction_op::logical_or: return {static_cast<std::uint8_t>(a.value != 0 || b.value != 0)};
	case reduction_op::prod:
	case reduction_op::min:
	case reduction_op::logical_and: return {static_cast<std::uint8_t>(a.value != 0 && b.value != 0)};
	case reduction_op::bitwise_xor: return {static_cast<std::uint8_t>((a.value != 0) != (b.value != 0))};
	case reduction_op::callable: break;
	}
	return a;
}

template <typename T>
void reduce_elements(const reduction_op op, const void* const source, const std::size_t count, const std::size_t num_elements, void* const destination) {
	const auto load = [&](const std::size_t i) {
		T value;
		std::memcpy(&value, static_cast<const std::byte*>(source) + i * sizeof(T), sizeof(T));
		return value;
	};
	for(std::size_t element = 0; element < num_elements; ++element) {
		T result = load(element);
		for(std::size_t i = 1; i < count; ++i) result = combine(op, result, load(i * num_elements + element));
		std::memcpy(static_cast<std::byte*>(destination) + element * sizeof(T), &result, sizeof(T));
	}
}

template <typename T>
bool is_extremum_of_nothing(const reduction_op op, const T& found) {
	if constexpr(is_complex<T>) {
		return false;
	} else if constexpr(std::is_same_v<T, boolean>) {
		return (found.value != 0) == (op == reduction_op::min);
	} else if constexpr(std::is_floating_point_v<T>) {
		return std::isinf(found) && (found > 0) == (op == reduction_op::min);
	} else {
		return found == (op == reduction_op::min ? std::numeric_limits<T>::max() : std::numeric_limits<T>::min());
	}
}

/// Calls f(std::type_identity<T>{}) with the C++ type.
template <typename F>
auto visit_type(const scalar_type type, F&& f) {
	switch(type) {
	case scalar_type::int8: return f(std::type_identity<std::int8_t>{});
	case scalar_type::int16: return f(std::type_identity<std::int16_t>{});
	case scalar_type::int32: return f(std::type_identity<std::int32_t>{});
	case scalar_type::int64: return f(std::type_identity<std::int64_t>{});
	case scalar_type::uint8: return f(std::type_identity<std::uint8_t>{});
	case scalar_type::uint16: return f(std::type_identity<std::uint16_t>{});
	case scalar_type::uint32: return f(std::type_identity<std::uint32_t>{});
	case scalar_type::uint64: return f(std::type_identity<std::uint64_t>{});
	case scalar_type::float32: return f(std::type_identity<float>{});
	case scalar_type::float64: return f(std::type_identity<double>{});
	case scalar_type::complex64: return f(std::type_identity<std::complex<float>>{});
	case scalar_type::complex128: return f(std::type_identity<std::complex<double>>{});
	case scalar_type::boolean: return f(std::type_identity<boolean>{});
	case scalar_type::other: break;
	}
	throw std::invalid_argument("no such scalar type");
}

} // namespace

std::size_t size_of(const scalar_type type) {
	return visit_type(type, []<typename T>(std::type_identity<T>) { return sizeof(T); });
}

bool is_defined(const reduction_op op, const scalar_type type) {
	if(op == reduction_op::callable || type == scalar_type::other) return false;
	if(op != reduction_op::bitwise_xor) return true;
	return type != scalar_type::float32 && type != scalar_type::float64 && type != scalar_type::complex64 && type != scalar_type::complex128;
}

bool is_extremum_of_nothing(const reduction_op op, const scalar_type type, const void* const values, const std::size_t num_elements) {
	if(op != reduction_op::min && op != reduction_op::max) return false;
	return visit_type(type, [&]<typename T>(std::type_identity<T>) {
		for(std::size_t i = 0; i < num_elements; ++i) {
			T found;
			std::memcpy(&found, static_cast<const std::byte*>(values) + i * sizeof(T), sizeof(T));
			if(!is_extremum_of_nothing(op, found)) return false;
		}
		return true;
	});
}

void reduce_partials(const reduction_op op, const scalar_type type, const void* const source, const std::size_t count, const std::size_t num_elements,
    void* const destination) {
	if(count == 0) throw std::invalid_argument("a reduction needs at least one element");
	if(!is_defined(op, type)) throw std::invalid_argument(std::string("'") + name_of(op) + "' is not defined on " + name_of(type));
	visit_type(type, [&]<typename T>(std::type_identity<T>) { reduce_elements<T>(op, source, count, num_elements, destination); });
}

} // namespace celerity

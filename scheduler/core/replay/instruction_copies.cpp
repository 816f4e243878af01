// SPDX-License-Identifier: MIT
#include "instruction_copies.hpp"

#include <span>
#include <type_traits>
#include <utility>
#include <variant>

#include "base/fields.hpp"
#include "base/small_vector.hpp"

namespace celerity {

namespace {

template <typename T>
inline constexpr bool is_span = false;
template <typename T>
inline constexpr bool is_span<std::span<const T>> = true;

template <typename T, typename... Others>
inline constexpr bool is_one_of = (std::is_same_v<T, Others> || ...);

template <typename T>
inline constexpr bool is_strong_id = false;
template <typename Tag, typename Rep>
inline constexpr bool is_strong_id<strong_id<Tag, Rep>> = true;

/// An id that differs from one repetition to the next. A kind of id that is neither here nor in the list of those that stay does not compile.
template <typename T>
inline constexpr bool is_moving_id = is_one_of<T, task_id, submission_id, message_id, reduction_id, transfer_id>;
template <typename T>
inline constexpr bool is_staying_id = is_one_of<T, rank_id, device_id, memory_id, buffer_id>;

template <template <typename> typename Property, typename T>
consteval bool any_field();

template <typename T>
struct refers {
	static consteval bool value() { return is_span<T> || any_field<refers, T>(); }
};
template <typename T>
struct moves {
	static consteval bool value() {
		static_assert(!is_strong_id<T> || is_moving_id<T> || is_staying_id<T>, "Say whether repetitions move this kind of id.");
		if constexpr(is_span<T>) {
			return moves<typename T::value_type>::value();
		} else {
			return is_moving_id<T> || any_field<moves, T>();
		}
	}
};

template <template <typename> typename Property, typename T>
consteval bool any_field() {
	if constexpr(described<T>) {
		using fields = decltype(std::declval<T&>().fields());
		return []<std::size_t... I>(std::index_sequence<I...>) {
			return (Property<std::remove_cvref_t<std::tuple_element_t<I, fields>>>::value() || ...);
		}(std::make_index_sequence<num_fields<T>>());
	} else {
		return false;
	}
}

/// Calls f(item) for each item of a list, and lets the list refer to a copy in the arena.
template <typename T, typename F>
void change_list(arena& memory, std::span<const T>& list, F&& f) {
	if(list.empty()) return;
	small_vector<T, 8> items(list);
	for(T& item : items) f(item);
	list = memory.copy(items);
}

template <typename T>
void keep(arena& memory, T& value) {
	if constexpr(is_span<T>) {
		if constexpr(refers<typename T::value_type>::value()) {
			change_list(memory, value, [&](auto& item) { keep(memory, item); });
		} else {
			value = memory.copy(value);
		}
	} else if constexpr(refers<T>::value()) {
		for_each_field(value, [&](const char*, auto& field) { keep(memory, field); });
	}
}

void move(task_id& id, const plan_position& by) { id.value += by.tasks; }
void move(submission_id& id, const plan_position& by) { id.value += by.submissions; }
void move(message_id& id, const plan_position& by) { id.value += by.messages; }
void move(reduction_id& id, const plan_position& by) {
	if(id != reduction_id{}) id.value += by.reductions;
}
void move(transfer_id& transfer, const plan_position& by) {
	move(transfer.consumer, by);
	move(transfer.reduction, by);
}

template <typename T>
void move_in(arena& memory, T& value, const plan_position& by) {
	if constexpr(is_moving_id<T>) {
		move(value, by);
	} else if constexpr(moves<T>::value()) {
		if constexpr(is_span<T>) {
			change_list(memory, value, [&](auto& item) { move_in(memory, item, by); });
		} else {
			for_each_field(value, [&](const char*, auto& field) { move_in(memory, field, by); });
		}
	}
}

} // namespace

instruction copy_into(arena& memory, const instruction& made) {
	instruction kept = made;
	keep(memory, kept.dependencies);
	std::visit([&](auto& kind) { keep(memory, kind); }, kept.operation);
	return kept;
}

void move_ids(arena& memory, instruction_operation& operation, const plan_position& by) {
	std::visit([&](auto& kind) { move_in(memory, kind, by); }, operation);
}

} // namespace celerity

// SPDX-License-Identifier: MIT
// A quick look at values from outside, such as global variables: whether each name still stands for the same object.
#pragma once

#include <nanobind/nanobind.h>

#include <cstdint>
#include <vector>

namespace celerity::native {

/// The value at a place: in a dictionary or cell, by name, or in an attribute of the object there, unless `attribute` is None. Null if there is none, or if code
/// of the program would have to run.
nanobind::object value_at(nanobind::handle where, nanobind::handle name, nanobind::handle attribute);

/// Immutable. All members with the GIL.
class value_watch {
  public:
	/// `places`: (root, name, attributes, id) each. A root is a dictionary, a cell, or a callable that gives the first object. The id is that of the object which
	/// lies there, or of the code of the function there. Somebody keeps what has this id alive.
	explicit value_watch(const nanobind::handle& places);

	/// False if all names still stand for the same objects. True may mean equal ones: then Python compares. Calls roots.
	bool has_moved() const;

	/// For the garbage collector.
	int traverse(visitproc visit, void* arg) const;
	void clear();

  private:
	struct place {
		nanobind::object root;
		nanobind::object name;
		std::vector<nanobind::object> attributes;
		std::uintptr_t id = 0;
	};
	std::vector<place> m_places;

	static nanobind::object value_of(const place& here);
};

} // namespace celerity::native

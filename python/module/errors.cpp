#include "python/module/errors.h"

#include <string>

namespace nb = nanobind;

namespace loopwright::python {

void set_error(const Error& error) {
  try {
    const nb::object exception =
        nb::module_::import_("loopwright._errors")
            .attr("make")(std::string(name(error.code)).c_str(), error.message().c_str());
    PyErr_SetObject(reinterpret_cast<PyObject*>(Py_TYPE(exception.ptr())), exception.ptr());
  } catch (nb::python_error& e) {
    e.restore();
  }
}

void raise(const Error& error) {
  set_error(error);
  throw nb::python_error();
}

}  // namespace loopwright::python

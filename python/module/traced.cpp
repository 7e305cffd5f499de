#include "python/module/traced.h"

#include <algorithm>

namespace loopwright::python {
namespace {

/// Puts "argument `x`: " in front of the message of the exception that is set.
void name_argument(const std::string& name) {
  const nb::python_error error;
  std::string text = nb::str(error.value()).c_str();
  text.resize(std::min(text.find('\n'), text.size()));  // torch appends the frames of its own stack
  PyErr_Format(error.matches(PyExc_RuntimeError) ? PyExc_TypeError : error.type().ptr(), "argument `%s`: %s",
               name.c_str(), text.c_str());
}

/// -1 with an exception.
int is_grad_enabled() {
  static PyObject* const function = [] {
    PyObject* torch = PyImport_ImportModule("torch");
    PyObject* found = torch != nullptr ? PyObject_GetAttrString(torch, "is_grad_enabled") : nullptr;
    Py_XDECREF(torch);
    return found;
  }();
  if (function == nullptr) return -1;
  PyObject* answer = PyObject_CallNoArgs(function);
  const int enabled = answer == Py_True ? 1 : answer != nullptr ? 0 : -1;
  Py_XDECREF(answer);
  return enabled;
}

int requires_grad(PyObject* tensor) {
  static PyObject* const name = PyUnicode_InternFromString("requires_grad");
  PyObject* answer = PyObject_GetAttr(tensor, name);
  const int needed = answer == Py_True ? 1 : answer != nullptr ? 0 : -1;
  Py_XDECREF(answer);
  return needed;
}

/// A view whose numbers are the negatives of its memory (of the imaginary part of a conjugate): its memory alone is wrong.
int is_negative_view(PyObject* tensor) {
  static PyObject* const name = PyUnicode_InternFromString("is_neg");
  PyObject* answer = PyObject_CallMethodNoArgs(tensor, name);
  const int negative = answer == Py_True ? 1 : answer != nullptr ? 0 : -1;
  Py_XDECREF(answer);
  if (negative == 1)
    PyErr_SetString(PyExc_TypeError, "a negative view; resolve_neg() makes a plain tensor of it");
  return negative;
}

bool guards_hold(const Traced& traced, PyObject* const* arguments) {
  for (const Guard& guard : traced.guards) {
    PyObject* found = guard.key.is_valid() ? PyDict_GetItemWithError(guard.place.ptr(), guard.key.ptr())
                                           : PyCell_GET(guard.place.ptr());
    if (found != guard.expected.ptr()) return false;
  }
  for (const Constant& constant : traced.constants) {
    PyObject* found = arguments[constant.argument];
    if (found == constant.value.ptr()) continue;
    if (Py_TYPE(found) != Py_TYPE(constant.value.ptr())) return false;
    if (PyObject_RichCompareBool(found, constant.value.ptr(), Py_EQ) != 1) return false;
  }
  return true;
}

}  // namespace

Source parse_source(nb::handle item) {
  Source source;
  if (nb::isinstance<nb::int_>(item)) source.argument = nb::cast<std::int32_t>(item);
  else if (nb::len(item) == 2) {
    source.dict = item[0];
    source.key = item[1];
    if (!PyDict_Check(source.dict.ptr()))
      throw nb::type_error("a source is an int, (dict, key) or (tensor,)");
  } else source.fixed = item[0];
  return source;
}

int needs_gradient(PyObject* tensor) {
  const TensorType* type = tensor != Py_None ? find_tensor_type(tensor) : nullptr;
  if (type == nullptr) {
    PyErr_Clear();  // no tensor
    return 0;
  }
  const int enabled = type->is_torch ? is_grad_enabled() : 0;
  return enabled == 1 ? requires_grad(tensor) : enabled;
}

Traced parse_traced(Program program, nb::list sources, nb::list guards, nb::list constants, nb::list returned,
                    nb::object unflatten) {
  Traced traced{std::move(program), {}, {}, {}, {}, std::move(unflatten)};
  for (nb::handle item : sources) traced.sources.push_back(parse_source(item));
  if (traced.sources.size() != traced.program.input_count()) throw nb::type_error("a source for each input");
  for (nb::handle item : guards) {
    Guard guard;
    guard.place = item[0];
    if (PyDict_Check(guard.place.ptr())) guard.key = item[1];
    else if (!PyCell_Check(guard.place.ptr()))
      throw nb::type_error("a guard is (dict, key, object) or (cell, None, object)");
    guard.expected = item[2];
    traced.guards.push_back(std::move(guard));
  }
  for (nb::handle item : constants)
    traced.constants.push_back({nb::cast<std::int32_t>(item[0]), nb::borrow(item[1])});
  for (nb::handle item : returned) {
    Returned r;
    const auto kind = nb::cast<std::string>(item[0]);
    if (kind == "output") r.output = nb::cast<std::int32_t>(item[1]);
    else if (kind == "argument") r.argument = nb::cast<std::int32_t>(item[1]);
    else r.fixed = item[1];
    if (r.output >= static_cast<std::int32_t>(traced.program.output_count()))
      throw nb::type_error("no such output");
    traced.returned.push_back(std::move(r));
  }
  return traced;
}

Inputs::Inputs(std::size_t count) : count_(count) {
  borrowed_ = on_stack_;
  tensors_ = tensor_stack_;
  objects_ = object_stack_;
  if (count <= kOnStack) return;
  borrowed_heap_.resize(count);
  tensor_heap_.resize(count);
  object_heap_.resize(count);
  borrowed_ = borrowed_heap_.data();
  tensors_ = tensor_heap_.data();
  objects_ = object_heap_.data();
}

Inputs::~Inputs() {
  for (std::size_t i = 0; i < read_; ++i) Py_DECREF(objects_[i]);
}

bool Inputs::read_one(const Traced& traced, std::size_t i, PyObject* const* arguments, Mismatch& mismatch) {
  const Source& source = traced.sources[i];
  PyObject* object = source.find(arguments);
  if (object == nullptr || object == Py_None) {
    if (PyErr_Occurred() == nullptr) mismatch = {Mismatch::Kind::guard, static_cast<std::int32_t>(i), 0};
    return false;
  }
  objects_[i] = Py_NewRef(object);
  read_ = i + 1;
  const TensorType* type = find_tensor_type(object);
  if (type == nullptr) return false;
  if (first_type_ == nullptr || (first_type_->api == nullptr && type->api != nullptr)) first_type_ = type;
  if (type->api != nullptr) {
    tensors_[i] = &borrowed_[i];
    if (type->api->borrow(object, &borrowed_[i]) != 0) return false;
    const bool may_be_negative =
        type->is_torch && source.argument >= 0 && borrowed_[i].dtype.code == kDLFloat;
    return !may_be_negative || is_negative_view(object) == 0;
  }
  readings_.push_back(std::make_unique<TensorReading>());
  const bool ok = readings_.back()->read(object, *type, traced.program.is_written(i));
  tensors_[i] = &readings_.back()->tensor();
  return ok;
}

bool Inputs::read(const Traced& traced, PyObject* const* arguments, Mismatch& mismatch,
                  std::int64_t* symbols) {
  mismatch = {};
  if (!guards_hold(traced, arguments)) {
    mismatch.kind = Mismatch::Kind::guard;
    return false;
  }
  for (std::size_t i = 0; i < count_; ++i) {
    if (!read_one(traced, i, arguments, mismatch)) {
      if (PyErr_Occurred() != nullptr) name_argument(traced.program.spec().tensors[i].name);
      return false;
    }
    if (!traced.program.match(i, *tensors_[i], symbols, mismatch)) return false;
  }
  if (!traced.program.match_derived(tensors_, symbols, mismatch)) return false;
  if (first_type_ == nullptr || !first_type_->is_torch) return true;
  const int enabled = is_grad_enabled();
  if (enabled < 0) return false;
  for (std::size_t i = 0; enabled == 1 && i < count_; ++i) {
    const int needed = find_tensor_type(objects_[i])->is_torch ? requires_grad(objects_[i]) : 0;
    if (needed == 0) continue;
    if (needed > 0) mismatch = {Mismatch::Kind::grad, static_cast<std::int32_t>(i), 0};
    return false;
  }
  return true;
}

}  // namespace loopwright::python

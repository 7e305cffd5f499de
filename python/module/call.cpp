#include "python/module/call.h"

#include <structmember.h>

#include <array>
#include <memory>
#include <new>
#include <vector>

#include "python/module/errors.h"
#include "python/module/outputs.h"
#include "python/module/plan.h"
#include "python/module/traced.h"

namespace loopwright::python {
namespace {

constexpr std::size_t kParametersOnStack = 64;
/// One would do; other threads may add programs of their own meanwhile.
constexpr int kMostAttempts = 4;

constexpr int kContainers = 1, kEveryCall = 2;

struct Call {
  PyObject_HEAD vectorcallfunc vectorcall;
  PyObject* names;     ///< tuple of interned str: the parameters
  PyObject* defaults;  ///< tuple as long; Ellipsis where there is none
  PyObject*
      details;  ///< object that other attributes are read from; `_miss` and `_differentiate` are in _core.pyi
  std::vector<std::shared_ptr<const Traced>>* traced;
  /// Whether the details take calls with lists, tuples and dicts as arguments (`_call_nested`), or every call.
  int nesting;
  char by_graph;  ///< Plan::launch_graph instead of launch
  Source* trained;  ///< the tensor that the last call with a gradient was seen to require one of
};

/// What a caller gave, in the order of the parameters.
struct Bound {
  std::array<PyObject*, kParametersOnStack> few;
  std::vector<PyObject*> many;
  PyObject** values = nullptr;           ///< of `few` or `many`: what was bound by name or default
  PyObject* const* arguments = nullptr;  ///< `values`, or the caller's own array
  PyObject* out = nullptr;
  PyObject* stream = nullptr;
};

bool refuse_arguments(const Call& self, const char* format, PyObject* what) {
  PyErr_Format(PyExc_TypeError, format, what, self.names);
  return false;
}

bool bind_keyword(const Call& self, Bound& bound, PyObject* key, PyObject* value) {
  const Py_ssize_t count = PyTuple_GET_SIZE(self.names);
  for (Py_ssize_t i = 0; i < count; ++i) {
    PyObject* name = PyTuple_GET_ITEM(self.names, i);
    if (name != key && PyUnicode_Compare(name, key) != 0) continue;
    PyObject*& slot = bound.values[i];
    if (slot != nullptr)
      return refuse_arguments(self, "argument `%U` is given twice; the arguments are %R", key);
    slot = value;
    return true;
  }
  if (PyUnicode_CompareWithASCIIString(key, "out") == 0) bound.out = value != Py_None ? value : nullptr;
  else if (PyUnicode_CompareWithASCIIString(key, "stream") == 0)
    bound.stream = value != Py_None ? value : nullptr;
  else return refuse_arguments(self, "there is no argument `%U`; the arguments are %R, out and stream", key);
  return true;
}

bool bind(const Call& self, PyObject* const* args, Py_ssize_t given, PyObject* keywords, Bound& bound) {
  const Py_ssize_t count = PyTuple_GET_SIZE(self.names);
  if (keywords == nullptr && given == count) {
    bound.arguments = args;
    return true;
  }
  if (given > count) {
    PyErr_Format(PyExc_TypeError, "%zd arguments are given; there are %zd: %R", given, count, self.names);
    return false;
  }
  const bool is_few = static_cast<std::size_t>(count) <= kParametersOnStack;
  if (!is_few) bound.many.resize(static_cast<std::size_t>(count));
  bound.values = is_few ? bound.few.data() : bound.many.data();
  std::fill_n(bound.values, count, nullptr);
  std::copy(args, args + given, bound.values);
  const Py_ssize_t named = keywords != nullptr ? PyTuple_GET_SIZE(keywords) : 0;
  for (Py_ssize_t k = 0; k < named; ++k)
    if (!bind_keyword(self, bound, PyTuple_GET_ITEM(keywords, k), args[given + k])) return false;
  for (Py_ssize_t i = 0; i < count; ++i) {
    PyObject*& slot = bound.values[i];
    if (slot == nullptr) slot = PyTuple_GET_ITEM(self.defaults, i);
    if (slot == Py_Ellipsis)
      return refuse_arguments(self, "argument `%U` is missing; the arguments are %R",
                              PyTuple_GET_ITEM(self.names, i));
  }
  bound.arguments = bound.values;
  return true;
}

bool find_stream(const Program& program, const Inputs& inputs, const Bound& bound, void*& stream) {
  stream = nullptr;
  if (bound.stream != nullptr) {
    stream = PyLong_AsVoidPtr(bound.stream);
    return PyErr_Occurred() == nullptr;
  }
  const TensorType* type = inputs.first_type();
  if (program.device().type == kDLCPU || type == nullptr || type->api == nullptr) return true;
  return type->api->current_stream(program.device().type, program.device().index, &stream) == 0;
}

bool check_written(const Traced& traced, const Inputs& inputs) {
  for (std::size_t a = 0; a < inputs.count(); ++a) {
    if (!traced.program.is_written(a)) continue;
    for (std::size_t b = 0; b < inputs.count(); ++b) {
      if (a == b || !overlap(*inputs.tensors()[a], *inputs.tensors()[b])) continue;
      const auto& tensors = traced.program.spec().tensors;
      set_error(
          Error{ErrorCode::aliasing, "call " + traced.program.spec().name,
                "`" + tensors[a].name + "`, which is written, shares memory with `" + tensors[b].name + "`",
                "", "memory of its own"});
      return false;
    }
  }
  return true;
}

bool launch(const Traced& traced, bool by_graph, void* const* pointers, const std::int64_t* symbols,
            void* stream) {
  const Plan& plan = traced.program.plan();
  ErrorCode code;
  if (traced.program.device().type == kDLCPU) {
    // Work of the caller's own thread: others may run Python meanwhile.
    Py_BEGIN_ALLOW_THREADS code = plan.launch(pointers, symbols, stream);
    Py_END_ALLOW_THREADS
  } else {
    code = by_graph ? plan.launch_graph(pointers, symbols, stream) : plan.launch(pointers, symbols, stream);
  }
  if (code == ErrorCode::ok) return true;
  std::string sizes;
  const PlanSpec& spec = traced.program.spec();
  for (std::size_t s = 0; s < spec.symbols.size(); ++s)
    sizes += (s > 0 ? ", " : "") + spec.symbols[s].name + " = " + std::to_string(symbols[s]);
  set_error(Error{code, "call " + spec.name,
                  code == ErrorCode::no_variant ? "a kernel without a variant for these sizes and addresses"
                                                : "the device refused the launch",
                  sizes.empty() ? "" : "at " + sizes,
                  code == ErrorCode::no_variant
                      ? "tensors aligned to 16 bytes, sizes that were tuned, or on_miss=\"jit\""
                      : ""});
  return false;
}

PyObject* collect(const Traced& traced, const Outputs& outputs, const Bound& bound) {
  const auto element = [&](const Returned& r) {
    return r.output >= 0     ? outputs.object(static_cast<std::size_t>(r.output))
           : r.argument >= 0 ? nb::borrow(bound.arguments[r.argument])
                             : r.fixed;
  };
  if (traced.unflatten.is_none()) return element(traced.returned[0]).release().ptr();
  PyObject* all = PyTuple_New(static_cast<Py_ssize_t>(traced.returned.size()));
  for (std::size_t i = 0; all != nullptr && i < traced.returned.size(); ++i)
    PyTuple_SET_ITEM(all, static_cast<Py_ssize_t>(i), element(traced.returned[i]).release().ptr());
  if (all == nullptr || traced.unflatten.ptr() == reinterpret_cast<PyObject*>(&PyTuple_Type)) return all;
  PyObject* shaped = PyObject_CallOneArg(traced.unflatten.ptr(), all);
  Py_DECREF(all);
  return shaped;
}

/// Null with a Python exception, or with a mismatch and none.
PyObject* serve(const Traced& traced, bool by_graph, const Bound& bound, Mismatch& mismatch, nb::object* message) {
  std::int64_t symbols[kMaxSymbols];
  Inputs inputs(traced.program.input_count());
  if (!inputs.read(traced, bound.arguments, mismatch, symbols)) {
    if (message == nullptr || PyErr_Occurred() != nullptr) return nullptr;
    const bool is_read = mismatch.kind != Mismatch::Kind::guard;
    set_error(traced.program.explain(mismatch, is_read ? inputs.tensors()[mismatch.tensor] : nullptr));
    return nullptr;
  }
  const std::size_t total = inputs.count() + traced.program.output_count();
  void* on_stack[2 * Inputs::kOnStack];
  std::vector<void*> on_heap(total > 2 * Inputs::kOnStack ? total : 0);
  void** pointers = on_heap.empty() ? on_stack : on_heap.data();
  for (std::size_t i = 0; i < inputs.count(); ++i) pointers[i] = inputs.data(i);
  Outputs outputs(traced, inputs, symbols);
  void* stream = nullptr;
  if (!(bound.out != nullptr ? outputs.take(bound.out, pointers + inputs.count())
                             : outputs.make(pointers + inputs.count())) ||
      (traced.program.writes_inputs() && !check_written(traced, inputs)) ||
      !find_stream(traced.program, inputs, bound, stream) || !launch(traced, by_graph, pointers, symbols, stream) ||
      !outputs.wrap())
    return nullptr;
  return collect(traced, outputs, bound);
}

nb::list list_values(const Call& self, const Bound& bound) {
  nb::list values;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(self.names); ++i) values.append(nb::borrow(bound.arguments[i]));
  return values;
}

/// Whether the tensor that required a gradient before does so in this call too, so that no program has to be tried. Without `out`
/// and `stream`, which only programs take. -1 with an exception.
int needs_gradient_again(const Call& self, const Bound& bound) {
  if (bound.out != nullptr || bound.stream != nullptr) return 0;
  PyObject* tensor = self.trained->find(bound.arguments);
  if (tensor == nullptr) return PyErr_Occurred() != nullptr ? -1 : 0;
  const nb::object kept = nb::borrow(tensor);
  return needs_gradient(kept.ptr());
}

/// Keeps where the tensor came from that required a gradient: for needs_gradient_again.
void remember_trained(Call& self, const Source& source) {
  if (source.argument < 0 && !source.dict.is_valid()) return;
  *self.trained = source;
}

bool holds_containers(const Call& self, const Bound& bound) {
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(self.names); ++i)
    if (PyObject* a = bound.arguments[i]; PyList_Check(a) || PyTuple_Check(a) || PyDict_Check(a)) return true;
  return false;
}

/// The result of a call whose arguments hold tensors: of the details. Null with a Python exception.
PyObject* call_nested(const Call& self, const Bound& bound) {
  const nb::object none = nb::none();
  return PyObject_CallMethod(self.details, "_call_nested", "OOO", list_values(self, bound).ptr(),
                             bound.out != nullptr ? bound.out : none.ptr(),
                             bound.stream != nullptr ? bound.stream : none.ptr());
}

/// The same for a function that takes any arguments: they are not bound to parameters.
PyObject* call_unbound(const Call& self, PyObject* const* args, Py_ssize_t given, PyObject* keywords) {
  nb::list positional;
  nb::dict named;
  for (Py_ssize_t i = 0; i < given; ++i) positional.append(nb::borrow(args[i]));
  const Py_ssize_t count = keywords != nullptr ? PyTuple_GET_SIZE(keywords) : 0;
  for (Py_ssize_t k = 0; k < count; ++k)
    named[nb::borrow(PyTuple_GET_ITEM(keywords, k))] = nb::borrow(args[given + k]);
  return PyObject_CallMethod(self.details, "_call_unbound", "OO", positional.ptr(), named.ptr());
}

/// The result of a call that a gradient has to flow through: of the details. Null with a Python exception.
PyObject* differentiate(const Call& self, const Bound& bound) {
  if (bound.out == nullptr && bound.stream == nullptr)
    return PyObject_CallMethod(self.details, "_differentiate", "O", list_values(self, bound).ptr());
  set_error(Error{ErrorCode::unsupported, "call with out= or stream=", "a tensor requires a gradient", "",
                  "torch.no_grad(), or a call without out= and stream="});
  return nullptr;
}

/// The exception that is set, as an object; none is set afterwards.
nb::object take_exception() {
  const nb::python_error error;
  return nb::borrow(error.value());
}

enum class Answer { failed, try_again, differentiate };

/// Asks the details for another program. `failed` with a Python exception.
Answer ask_for_more(Call& self, const Bound& bound) {
  nb::object error = nb::none();
  const std::size_t seen = self.traced->size();
  if (seen > 0) {  // why the first one does not serve, which is the one that was asked for
    const std::shared_ptr<const Traced> first = self.traced->front();
    Mismatch mismatch;
    nb::object message;
    if (PyObject* served = serve(*first, self.by_graph != 0, bound, mismatch, &message)) {
      Py_DECREF(served);
      PyErr_SetString(PyExc_RuntimeError, "arguments changed during the call");
      return Answer::failed;
    }
    error = take_exception();
  }
  PyObject* answer = PyObject_CallMethod(self.details, "_miss", "OOn", list_values(self, bound).ptr(),
                                         error.ptr(), static_cast<Py_ssize_t>(seen));
  if (answer == nullptr) return Answer::failed;
  const nb::object kept = nb::steal(answer);
  if (kept.is_none()) return Answer::try_again;
  remember_trained(self, parse_source(kept));
  return Answer::differentiate;
}

PyObject* call(PyObject* object, PyObject* const* args, std::size_t flags, PyObject* keywords) noexcept {
  auto& self = *reinterpret_cast<Call*>(object);
  try {
    Bound bound;
    if (self.nesting == kEveryCall) return call_unbound(self, args, PyVectorcall_NARGS(flags), keywords);
    if (!bind(self, args, PyVectorcall_NARGS(flags), keywords, bound)) return nullptr;
    if (const int again = needs_gradient_again(self, bound); again != 0)
      return again < 0 ? nullptr : differentiate(self, bound);
    for (int attempt = 0; attempt <= kMostAttempts; ++attempt) {
      for (std::size_t i = self.traced->size(); i-- > 0;) {  // the newest is the likeliest
        const std::shared_ptr<const Traced> traced = (*self.traced)[i];
        Mismatch mismatch;
        if (PyObject* result = serve(*traced, self.by_graph != 0, bound, mismatch, nullptr)) return result;
        if (PyErr_Occurred() != nullptr) {
          if (self.nesting != kContainers || !holds_containers(self, bound)) return nullptr;
          PyErr_Clear();
          return call_nested(self, bound);
        }
        if (mismatch.kind == Mismatch::Kind::grad) {
          remember_trained(self, traced->sources[static_cast<std::size_t>(mismatch.tensor)]);
          return differentiate(self, bound);
        }
      }
      if (attempt == kMostAttempts) break;
      if (self.nesting == kContainers && holds_containers(self, bound)) return call_nested(self, bound);
      const Answer answer = ask_for_more(self, bound);
      if (answer == Answer::failed) return nullptr;
      if (answer == Answer::differentiate) return differentiate(self, bound);
    }
    PyErr_SetString(PyExc_RuntimeError, "a bug: the program made for these arguments does not serve them");
  } catch (nb::python_error& e) {
    e.restore();
  } catch (const std::exception& e) {
    PyErr_SetString(PyExc_RuntimeError, e.what());
  }
  return nullptr;
}

// ---------------------------------------------------------------- the type

PyObject* create(PyTypeObject* type, PyObject* args, PyObject*) {
  PyObject *names, *defaults, *details;
  int nesting = 0, by_graph = 0;
  if (!PyArg_ParseTuple(args, "O!O!O|ip", &PyTuple_Type, &names, &PyTuple_Type, &defaults, &details, &nesting,
                        &by_graph))
    return nullptr;
  if (PyTuple_GET_SIZE(names) != PyTuple_GET_SIZE(defaults)) {
    PyErr_SetString(PyExc_ValueError, "parameters with a default or ... for each");
    return nullptr;
  }
  auto* self = reinterpret_cast<Call*>(type->tp_alloc(type, 0));
  if (self == nullptr) return nullptr;
  self->vectorcall = call;
  self->names = Py_NewRef(names);
  self->defaults = Py_NewRef(defaults);
  self->details = Py_NewRef(details);
  self->nesting = nesting;
  self->by_graph = static_cast<char>(by_graph);
  self->traced = new (std::nothrow) std::vector<std::shared_ptr<const Traced>>;
  self->trained = new (std::nothrow) Source;
  if (self->traced == nullptr || self->trained == nullptr) {
    Py_DECREF(self);
    return PyErr_NoMemory();
  }
  return reinterpret_cast<PyObject*>(self);
}

PyObject* add(PyObject* object, PyObject* args) {
  auto& self = *reinterpret_cast<Call*>(object);
  PyObject *plan, *sources, *guards, *constants, *returned, *unflatten;
  if (!PyArg_ParseTuple(args, "OO!O!O!O!O", &plan, &PyList_Type, &sources, &PyList_Type, &guards,
                        &PyList_Type, &constants, &PyList_Type, &returned, &unflatten))
    return nullptr;
  try {
    const auto& loaded = nb::cast<const LoadedPlan&>(nb::handle(plan));
    const auto as_list = [](PyObject* o) { return nb::borrow<nb::list>(o); };
    self.traced->push_back(std::make_shared<const Traced>(
        parse_traced(unwrap(Program::make(loaded.plan, loaded.device)), as_list(sources), as_list(guards),
                     as_list(constants), as_list(returned), nb::borrow(unflatten))));
    Py_RETURN_NONE;
  } catch (nb::python_error& e) {
    e.restore();
  } catch (const std::exception& e) {
    PyErr_SetString(PyExc_TypeError, e.what());
  }
  return nullptr;
}

PyObject* reset(PyObject* object, PyObject*) {
  auto& self = *reinterpret_cast<Call*>(object);
  self.traced->clear();
  *self.trained = {};
  Py_RETURN_NONE;
}

PyObject* reduce(PyObject* object, PyObject*) {
  return PyObject_CallMethod(reinterpret_cast<Call*>(object)->details, "_refuse_copy", nullptr);
}

PyObject* get_attribute(PyObject* object, PyObject* name) {
  if (PyObject* found = PyObject_GenericGetAttr(object, name)) return found;
  if (!PyErr_ExceptionMatches(PyExc_AttributeError)) return nullptr;
  PyErr_Clear();
  return PyObject_GetAttr(reinterpret_cast<Call*>(object)->details, name);
}

PyObject* get_doc(PyObject* object, void*) {
  return PyObject_GetAttrString(reinterpret_cast<Call*>(object)->details, "__doc__");
}

PyObject* represent(PyObject* object) { return PyObject_Repr(reinterpret_cast<Call*>(object)->details); }

int traverse(PyObject* object, visitproc visit, void* arg) {
  const auto& self = *reinterpret_cast<Call*>(object);
  Py_VISIT(Py_TYPE(object));
  Py_VISIT(self.names);
  Py_VISIT(self.defaults);
  Py_VISIT(self.details);
  if (self.traced == nullptr || self.trained == nullptr) return 0;
  int stop = 0;  // globals that a guard looks into may hold this object
  const auto see = [&](const nb::object& o) {
    stop = stop == 0 && o.is_valid() ? visit(o.ptr(), arg) : stop;
  };
  see(self.trained->dict), see(self.trained->key);
  for (const auto& traced : *self.traced) {
    for (const Source& s : traced->sources) see(s.dict), see(s.key), see(s.fixed);
    for (const Guard& g : traced->guards) see(g.place), see(g.key), see(g.expected);
    for (const Constant& c : traced->constants) see(c.value);
    for (const Returned& r : traced->returned) see(r.fixed);
    see(traced->unflatten);
  }
  return stop;
}

int clear(PyObject* object) {
  auto& self = *reinterpret_cast<Call*>(object);
  Py_CLEAR(self.details);
  Py_CLEAR(self.names);
  Py_CLEAR(self.defaults);
  if (self.traced != nullptr) self.traced->clear();
  if (self.trained != nullptr) *self.trained = {};
  return 0;
}

void destroy(PyObject* object) {
  PyObject_GC_UnTrack(object);
  clear(object);
  delete reinterpret_cast<Call*>(object)->traced;
  delete reinterpret_cast<Call*>(object)->trained;
  PyTypeObject* type = Py_TYPE(object);
  type->tp_free(object);
  Py_DECREF(type);
}

PyMethodDef methods[] = {{"add", add, METH_VARARGS, "Adds one way to serve calls; see _core.pyi."},
                         {"reset", reset, METH_NOARGS, "Forgets every way to serve calls."},
                         {"__reduce_ex__", reduce, METH_O, nullptr},
                         {nullptr, nullptr, 0, nullptr}};
PyGetSetDef properties[] = {{"__doc__", get_doc, nullptr, nullptr, nullptr},
                            {nullptr, nullptr, nullptr, nullptr, nullptr}};
PyMemberDef members[] = {{"__vectorcalloffset__", T_PYSSIZET, offsetof(Call, vectorcall), READONLY, nullptr},
                         {"by_graph", T_BOOL, offsetof(Call, by_graph), READONLY, nullptr},
                         {"details", T_OBJECT, offsetof(Call, details), READONLY, nullptr},
                         {nullptr, 0, 0, 0, nullptr}};

template <class F>
void* slot(F* function) {
  return reinterpret_cast<void*>(function);
}

}  // namespace

void bind_call(nb::module_& module) {
  PyType_Slot slots[] = {{Py_tp_new, slot(create)},
                         {Py_tp_call, slot(PyVectorcall_Call)},
                         {Py_tp_methods, methods},
                         {Py_tp_members, members},
                         {Py_tp_getattro, slot(get_attribute)},
                         {Py_tp_getset, properties},
                         {Py_tp_repr, slot(represent)},
                         {Py_tp_traverse, slot(traverse)},
                         {Py_tp_clear, slot(clear)},
                         {Py_tp_dealloc, slot(destroy)},
                         {0, nullptr}};
  PyType_Spec spec{"loopwright._core.Call", sizeof(Call), 0,
                   Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_HAVE_VECTORCALL, slots};
  nb::object type = nb::steal(PyType_FromSpec(&spec));
  if (!type.is_valid()) throw nb::python_error();
  module.attr("Call") = type;
}

}  // namespace loopwright::python

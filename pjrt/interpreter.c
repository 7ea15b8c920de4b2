// SPDX-License-Identifier: Apache-2.0
// Runs a few lines of Python in the interpreter that has loaded this library.
//
// The symbols of Python's C API are looked up in the process, so that the plugin depends on no release of it: those
// used here are part of its stable ABI or as old as Python 3. Each script gets `api` or `data`, and leaves bytes in
// `result`, or the text of an exception in `error`; no exception is ever left pending.
#include "pjrt/interpreter.h"

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

#include "hlo/base/macros.h"

typedef struct PyObject PyObject;

// Return type, name, parameters.
#define PYTHON_FUNCTIONS(X)                                                               \
    X(int, Py_IsInitialized, (void))                                                      \
    X(int, PyGILState_Ensure, (void))                                                     \
    X(void, PyGILState_Release, (int))                                                    \
    X(PyObject *, PyDict_New, (void))                                                     \
    X(int, PyDict_SetItemString, (PyObject *, const char *, PyObject *))                  \
    X(PyObject *, PyDict_GetItemString, (PyObject *, const char *))                       \
    X(PyObject *, PyCapsule_New, (void *, const char *, void (*)(PyObject *)))            \
    X(PyObject *, PyBytes_FromStringAndSize, (const char *, ptrdiff_t))                   \
    X(int, PyBytes_AsStringAndSize, (PyObject *, char **, ptrdiff_t *))                   \
    X(PyObject *, PyRun_StringFlags, (const char *, int, PyObject *, PyObject *, void *)) \
    X(void, PyErr_Clear, (void))                                                          \
    X(void, Py_DecRef, (PyObject *))

typedef struct Python {
#define FIELD(type, name, parameters) type(*name) parameters;
    PYTHON_FUNCTIONS(FIELD)
#undef FIELD
} Python;

// `Py_file_input`: the text is a list of statements.
enum { STATEMENTS = 257 };

static bool find_function(const char *name, void *function, size_t size) {
    void *found = dlsym(RTLD_DEFAULT, name);
    memcpy(function, &found, size);
    return found != NULL;
}

// False where no interpreter runs in this process.
static bool find_python(Python *python) {
    bool whole = true;
#define FIND(type, name, parameters) whole = whole && find_function(#name, &python->name, sizeof(python->name));
    PYTHON_FUNCTIONS(FIND)
#undef FIND
    return whole && python->Py_IsInitialized();
}

// Appends the bytes of a variable; false where it is missing or holds none.
static bool take_bytes(const Python *python, PyObject *variables, const char *name, HloText *text) {
    PyObject *value = python->PyDict_GetItemString(variables, name);
    char *bytes;
    ptrdiff_t size;
    if (!value || python->PyBytes_AsStringAndSize(value, &bytes, &size)) return false;
    hlo_text_append(text, bytes, (size_t)size);
    return true;
}

// Runs the script with one variable set; takes over the reference on its value.
static HloStatus run(const Python *python, const char *script, const char *name, PyObject *value, HloText *result) {
    PyObject *variables = python->PyDict_New();
    bool done = variables && value && !python->PyDict_SetItemString(variables, name, value);
    HloText error = {0};
    if (done) {
        PyObject *nothing = python->PyRun_StringFlags(script, STATEMENTS, variables, variables, NULL);
        done = nothing && take_bytes(python, variables, "result", result);
        if (!done) take_bytes(python, variables, "error", &error);
        if (nothing) python->Py_DecRef(nothing);
    }
    python->PyErr_Clear();
    if (variables) python->Py_DecRef(variables);
    if (value) python->Py_DecRef(value);
    HloStatus status = hlo_text_status(result);
    if (!status && !done)
        status =
            hlo_error(HLO_INTERNAL, "%.*s", (int)error.length, error.length ? error.data : "Python did not answer");
    hlo_text_free(&error);
    return status;
}

static const char without_python[] = "no Python interpreter runs in this process";

// Runs the script with the variable `data` set to bytes.
static HloStatus run_on_bytes(const char *script, const void *data, size_t size, HloText *result) {
    Python python;
    HLO_FAIL_IF(!find_python(&python), HLO_FAILED_PRECONDITION, "%s", without_python);
    const int state = python.PyGILState_Ensure();
    HloStatus status = run(&python, script, "data", python.PyBytes_FromStringAndSize(data, (ptrdiff_t)size), result);
    python.PyGILState_Release(state);
    return status;
}

HloStatus pjrt_interpreter_register_partitioner(const PjrtApi *api) {
    // The arguments are those that JAX's own registration has.
    static const char script[] =
        "import sys\n"
        "result = error = b''\n"
        "try:\n"
        "    module = sys.modules['jax._src.custom_partitioning']\n"
        "    module.xc.register_custom_call_partitioner(\n"
        "        name=module._CUSTOM_PARTITIONING_CALL_NAME,\n"
        "        prop_user_sharding=module._custom_partitioning_propagate_user_sharding,\n"
        "        partition=module._custom_partitioning_partition,\n"
        "        infer_sharding_from_operands=module._custom_partitioning_infer_sharding_from_operands,\n"
        "        can_side_effecting_have_replicated_sharding=True,\n"
        "        c_api=api)\n"
        "except BaseException as exception:\n"
        "    del result\n"
        "    error = f'{type(exception).__name__}: {exception}'.encode(errors='replace')\n";
    Python python;
    HLO_FAIL_IF(!find_python(&python), HLO_FAILED_PRECONDITION, "%s", without_python);
    const int state = python.PyGILState_Ensure();
    HloText result = {0};
    PyObject *capsule = python.PyCapsule_New((void *)(uintptr_t)api, "pjrt_c_api", NULL);
    HloStatus status = run(&python, script, "api", capsule, &result);
    python.PyGILState_Release(state);
    hlo_text_free(&result);
    return status;
}

HloStatus pjrt_interpreter_make_portable(const void *bytes, size_t size, HloText *portable) {
    // The version is that which the plugin advertises (pjrt_plugin_attributes()).
    static const char script[] =
        "result = error = b''\n"
        "try:\n"
        "    from jax.extend import mlir\n"
        "    result = mlir.serialize_portable_artifact(data, '1.13.7')\n"
        "except BaseException as exception:\n"
        "    del result\n"
        "    error = f'{type(exception).__name__}: {exception}'.encode(errors='replace')\n";
    return run_on_bytes(script, bytes, size, portable);
}

HloStatus pjrt_interpreter_distributed(PjrtDistributed *distributed) {
    static const char script[] =
        "import sys\n"
        "result = error = b''\n"
        "try:\n"
        "    module = sys.modules.get('jax._src.distributed')\n"
        "    jax = sys.modules.get('jax')\n"
        "    state = module.global_state if module else None\n"
        "    known = state is not None and state.client is not None\n"
        "    words = (state.num_processes, state.process_id) if known else (0, 0)\n"
        "    version = getattr(jax, '__version__', '-')\n"
        "    result = f'{int(known)} {int(words[0])} {int(words[1])} {version:.30}'.encode()\n"
        "except BaseException as exception:\n"
        "    del result\n"
        "    error = f'{type(exception).__name__}: {exception}'.encode(errors='replace')\n";
    *distributed = (PjrtDistributed){0};
    HloText result = {0};
    HloStatus status = run_on_bytes(script, "", 0, &result);
    int known = 0;
    long long count = 0, index = 0;
    const bool read = !status && sscanf(result.data ? result.data : "", "%d %lld %lld %31s", &known, &count, &index,
                                        distributed->version) == 4;
    hlo_text_free(&result);
    HLO_TRY(status);
    if (read && strcmp(distributed->version, "-") == 0) distributed->version[0] = 0;
    HLO_FAIL_IF(!read, HLO_INTERNAL, "JAX's answer about its processes is malformed");
    distributed->is_initialized = known != 0;
    distributed->process_count = count;
    distributed->process_index = index;
    return HLO_SUCCESS;
}

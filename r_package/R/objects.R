# Models and contexts: lists of class llamaherd_model and llamaherd_context, with the Python object
# as element `python`.

# Check a model or a context, and return its Python object.
check_model <- function(
  x,
  arg = rlang::caller_arg(x),
  error_call = rlang::caller_env()
) {
  check_object(x, "model", "model_load", arg, error_call)
}

check_context <- function(
  x,
  arg = rlang::caller_arg(x),
  error_call = rlang::caller_env()
) {
  check_object(x, "context", "context_create", arg, error_call)
}

check_object <- function(x, kind, maker, arg, error_call) {
  check_given(x, arg = arg, error_call = error_call)
  if (!inherits(x, paste0("llamaherd_", kind))) {
    must <- sprintf("a <llamaherd_%s> made by %s()", kind, maker)
    abort_argument(arg, must, x, error_call, object_hint(x, kind))
  }
  problem <- object_problem(x)
  if (!is.null(problem)) {
    abort(
      c(
        "{.arg {arg}} cannot be used: it {problem}.",
        i = if (is_from_elsewhere(x)) {
          "A {kind} exists only in the R process that made it; results can be saved and sent."
        },
        i = "Create it again with {.fn {maker}}."
      ),
      kind,
      error_call
    )
  }
  x$python
}

# Returns a hint on how to create the required object from the given object.
object_hint <- function(x, kind) {
  if (is.character(x)) {
    x <- "model_load(\"model.gguf\") loads a model"
    return(
      if (kind == "model") paste0(x, ".") else paste0(x, ", context_create() takes it.")
    )
  }
  if (inherits(x, "llamaherd_model")) {
    return("Create a context for the model: context_create(model).")
  }
  if (inherits(x, "llamaherd_context")) {
    return("The model of a context is context$model.")
  }
  NULL
}

# Returns the reason why an object cannot be used any more; NULL if it can be used. An object from
# readRDS() or a restored session has lost its Python object.
object_problem <- function(x) {
  if (is_from_elsewhere(x)) {
    "was saved, or made by another R process"
  } else if (py_call("is_closed", x$python)) {
    "is closed"
  }
}

# Returns TRUE if an object was read from a file or received from another process.
is_from_elsewhere <- function(x) reticulate::py_is_null_xptr(x$python)

# Closes an object; closing a closed object does nothing.
close_object <- function(x) {
  if (!is_from_elsewhere(x)) {
    py_call("close", x$python)
  }
  invisible()
}

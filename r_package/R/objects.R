# Models and contexts: lists of class llamaherd_model and llamaherd_context, with the Python object
# as element `python`.

# Check a model or a context, and return its Python object.
check_model <- function(x, arg = rlang::caller_arg(x)) {
  check_object(x, "model", "model_load", arg)
}

check_context <- function(x, arg = rlang::caller_arg(x)) {
  check_object(x, "context", "context_create", arg)
}

check_model_or_context <- function(x, arg = rlang::caller_arg(x)) {
  if (inherits(x, "llamaherd_context")) check_context(x, arg) else check_model(x, arg)
}

check_object <- function(x, kind, maker, arg) {
  check_given(x, arg = arg)
  if (!inherits(x, paste0("llamaherd_", kind))) {
    must <- sprintf("a <llamaherd_%s> made by %s()", kind, maker)
    abort_argument(arg, must, x, hint = object_hint(x, kind))
  }
  if (is_from_elsewhere(x)) {
    abort(
      c(
        "{.arg {arg}} cannot be used: it {elsewhere}.",
        i = "A {kind} exists only in the R process that made it; results can be saved and sent.",
        i = "Create it again with {.fn {maker}}."
      ),
      kind
    )
  }
  x$python
}

# Returns a hint on how to create the required object from the given object.
object_hint <- function(x, kind) {
  if (is.character(x)) {
    paste0(
      "model_load(\"model.gguf\") loads a model",
      if (kind == "context") ", context_create() takes it",
      "."
    )
  } else if (inherits(x, "llamaherd_model")) {
    "Create a context for the model: context_create(model)."
  } else if (inherits(x, "llamaherd_context")) {
    "The model of a context is context$model."
  }
}

# Returns the reason why an object cannot be used any more; NULL if it can be used. An object from
# readRDS() or a restored session has lost its Python object.
object_problem <- function(x) {
  if (is_from_elsewhere(x)) {
    elsewhere
  } else if (py_call("is_closed", x$python)) {
    "is closed"
  }
}

elsewhere <- "was saved, or made by another R process"

# Returns TRUE if an object was read from a file or received from another process.
is_from_elsewhere <- function(x) reticulate::py_is_null_xptr(x$python)

# Closes an object; closing a closed object does nothing.
close_object <- function(x) {
  if (!is_from_elsewhere(x)) {
    py_call("close", x$python)
  }
  invisible()
}

# Objects whose content later calls read from a second place: a JSON text or an object of Python. An
# element that a user changes would be printed, but the later calls would not use it. So assigning
# to the elements of these objects causes an error.

fixed <- function(x, class, ...) {
  structure(x, ..., class = c(class, "llamaherd_fixed"))
}

# How to get a changed object, by class.
fixed_hints <- c(
  llamaherd_codebook = "Create another one with {.fn codebook}, or write it with
    {.fn write_codebook}, edit the file and read it with {.fn read_codebook}.",
  llamaherd_gold = "To change codes, edit the columns of coders in
    {.code sheet <- as.data.frame(gold)} and read them: {.code read_gold(sheet, gold)}.",
  llamaherd_estimates = "To edit numbers, copy the table: {.code table <- as.data.frame(x)}.",
  llamaherd_validation = "To edit numbers, copy the table: {.code table <- as.data.frame(x)}.",
  llamaherd_scale = "Create another one with {.fn number_scale}.",
  llamaherd_model = "Load the model again with {.fn model_load}.",
  llamaherd_context = "Create another one with {.fn context_create}."
)

refuse_edit <- function(x) {
  class <- class(x)[[1]]
  hint <- if (class %in% names(fixed_hints)) {
    fixed_hints[[class]]
  } else {
    "Compute it again from the changed data."
  }
  abort(
    c("The elements of a {.cls {class}} cannot be changed.", i = hint),
    "argument",
    NULL
  )
}

#' @export
`$<-.llamaherd_fixed` <- function(x, name, value) refuse_edit(x)

#' @export
`[[<-.llamaherd_fixed` <- function(x, ..., value) refuse_edit(x)

#' @export
`[<-.llamaherd_fixed` <- function(x, ..., value) refuse_edit(x)

#' @export
`names<-.llamaherd_fixed` <- function(x, value) refuse_edit(x)

# Returns a fixed object with another element, for elements that its JSON does not contain.
with_element <- function(x, name, value) {
  class <- class(x)
  x <- unclass(x)
  x[[name]] <- value
  structure(x, class = class)
}

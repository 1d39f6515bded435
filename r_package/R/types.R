#' Describe the data that answers are made of
#'
#' @description
#' These functions write what [generate_parallel()] takes as `schema`: which fields each
#' answer has, and of what type they are. Their names and arguments are those of the package
#' ellmer, whose own objects are taken as well, also inside of these.
#'
#' * `type_boolean()`, `type_integer()`, `type_number()` and `type_string()` stand for a single
#'   value and become a column of that type.
#' * `type_enum()` is a text that is one of `values`, and becomes a factor with these levels.
#' * `type_array()` is any number of values of one type, and becomes a list column: of vectors,
#'   or of data frames if `items` is a `type_object()`.
#' * `type_object()` has named fields. The outermost one becomes the data frame itself, one
#'   within it a data frame in a column, or with `dotted = TRUE` columns with dotted names.
#' * `type_from_schema()` takes a JSON Schema as it is, as text or from a file.
#'
#' @section Descriptions:
#' A model sees nothing of them while it answers: an answer has the right form because tokens
#' that would break it are not available, not because the model knows of it. Put them into the
#' prompt with [schema_prompt()].
#'
#' @param description,.description What the value is, for the prompt; see below.
#' @param required,.required FALSE: an object may come without this field. It is NA, or NULL in
#'   a list column, then.
#' @param values Character vector, or a factor, whose levels are taken.
#' @param items The type of the elements.
#' @param ... Fields by their names, each a type.
#' @param .additional_properties TRUE allows fields that are not named here. They become no
#'   columns, but the texts of the answers have them.
#' @param text A JSON Schema as text.
#' @param path Path of a file with a JSON Schema.
#' @returns A `llamaherd_type`.
#' @seealso [generate_parallel()], [schema_prompt()]
#' @export
#' @examples
#' type_object(
#'   "What a review says.",
#'   sentiment = type_enum(c("positive", "neutral", "negative")),
#'   stars = type_integer("From 1 to 5."),
#'   topics = type_array(type_string()),
#'   author = type_object(name = type_string(), age = type_integer(required = FALSE))
#' )
#'
#' # What no type says, a JSON Schema does. Ranges and lengths keep small models from writing
#' # numbers and texts without end.
#' type_object(
#'   stars = type_from_schema('{"type": "integer", "minimum": 1, "maximum": 5}'),
#'   reason = type_from_schema('{"type": "string", "maxLength": 200}')
#' )
type_boolean <- function(description = NULL, required = TRUE) {
  new_type("boolean", description, required)
}

#' @rdname type_boolean
#' @export
type_integer <- function(description = NULL, required = TRUE) {
  new_type("integer", description, required)
}

#' @rdname type_boolean
#' @export
type_number <- function(description = NULL, required = TRUE) {
  new_type("number", description, required)
}

#' @rdname type_boolean
#' @export
type_string <- function(description = NULL, required = TRUE) {
  new_type("string", description, required)
}

#' @rdname type_boolean
#' @export
type_enum <- function(values, description = NULL, required = TRUE) {
  rlang::check_required(values)
  if (is.factor(values)) {
    values <- levels(values)
  }
  values <- unname(check_text(values))
  if (length(values) == 0 || anyDuplicated(values)) {
    must <- "texts, at least one, and no two the same"
    abort_argument("values", must, values, rlang::current_env())
  }
  new_type("enum", description, required, values = values)
}

#' @rdname type_boolean
#' @export
type_array <- function(items, description = NULL, required = TRUE) {
  rlang::check_required(items)
  new_type("array", description, required, items = check_type(items))
}

#' @rdname type_boolean
#' @export
type_object <- function(
  .description = NULL,
  ...,
  .required = TRUE,
  .additional_properties = FALSE
) {
  error_call <- rlang::current_env()
  if (is.list(.description) || is_type(.description)) {
    abort_unnamed("The first argument", error_call)
  }
  fields <- rlang::list2(...)
  given <- as_utf8(rlang::names2(fields))
  if (anyNA(given) || !all(nzchar(given))) {
    abort_unnamed("One of them", error_call)
  }
  if (anyDuplicated(given)) {
    twice <- given[[anyDuplicated(given)]]
    abort("There are two fields of the name {.field {twice}}.", "argument", error_call)
  }
  fields <- Map(
    \(type, name) check_type(type, name, error_call),
    fields,
    given
  )
  new_type(
    "object",
    check_string(.description, null = TRUE),
    check_flag(.required),
    fields = stats::setNames(fields, given),
    additional = check_flag(.additional_properties)
  )
}

#' @rdname type_boolean
#' @export
type_from_schema <- function(text, path) {
  error_call <- rlang::current_env()
  if (missing(text) == missing(path)) {
    abort("Exactly one of {.arg text} and {.arg path} is needed.", "argument", error_call)
  }
  json <- if (missing(path)) {
    check_json(check_string(text), "text", error_call)
  } else {
    read_schema(path, "path", error_call)
  }
  new_type("schema", NULL, TRUE, json = json)
}

new_type <- function(
  kind,
  description,
  required,
  ...,
  error_call = rlang::caller_env()
) {
  structure(
    list(
      kind = kind,
      description = check_string(description, "description", TRUE, error_call),
      required = check_flag(required, "required", error_call),
      ...
    ),
    class = "llamaherd_type"
  )
}

is_type <- function(x) {
  inherits(x, "llamaherd_type") || inherits(x, "ellmer::Type")
}

check_type <- function(
  x,
  arg = rlang::caller_arg(x),
  error_call = rlang::caller_env()
) {
  if (!is_type(x)) {
    must <- "a type, made by type_string() and its like"
    abort_argument(arg, must, x, error_call)
  }
  as_type(x, arg, error_call)
}

abort_unnamed <- function(which, error_call) {
  abort(
    c(
      "Every field must have a name, such as `name = type_string()`.",
      x = paste(which, "has none.")
    ),
    "argument",
    error_call
  )
}

# ---- ellmer's types ---------------------------------------------------------------------

# ellmer's objects are of S7 classes, whose properties are attributes. NULL for those that
# are only for its tools.
as_type <- function(x, arg, error_call) {
  if (inherits(x, "llamaherd_type")) {
    return(x)
  }
  kind <- sub("ellmer::Type", "", class(x)[[1]], fixed = TRUE)
  make <- function(kind, ...) {
    required <- property(x, "required") %||% TRUE
    new_type(kind, property(x, "description"), required, ..., error_call = error_call)
  }
  switch(
    kind,
    Basic = make(property(x, "type")),
    Enum = make("enum", values = as.character(property(x, "values"))),
    Array = make("array", items = as_type(property(x, "items"), arg, error_call)),
    Object = {
      fields <- property(x, "properties")
      fields <- fields[!vapply(fields, inherits, logical(1), "ellmer::TypeIgnore")]
      make(
        "object",
        fields = lapply(fields, as_type, arg = arg, error_call = error_call),
        additional = isTRUE(property(x, "additional_properties"))
      )
    },
    JsonSchema = make("schema", json = schema_json(property(x, "json"), arg, error_call)),
    abort_argument(arg, "a type for structured data", x, error_call)
  )
}

# S7 has a symbol where a property is NULL, which an attribute cannot be.
property <- function(x, name) {
  value <- attr(x, name, exact = TRUE)
  if (is.symbol(value)) NULL else value
}

# ---- types as they print -----------------------------------------------------------------

#' @export
format.llamaherd_type <- function(x, ...) {
  lines <- type_lines(x, "", "")
  lines[[1]] <- sprintf("<llamaherd_type> %s", lines[[1]])
  lines
}

#' @export
print.llamaherd_type <- function(x, ...) {
  writeLines(cut_to(format(x, ...), getOption("width")))
  invisible(x)
}

# One line for the type, and one for each field below it.
type_lines <- function(x, name, indent) {
  inner <- x
  prefix <- ""
  while (inner$kind == "array") {
    prefix <- paste0(prefix, "array of ")
    inner <- inner$items
  }
  what <- switch(
    inner$kind,
    enum = paste(
      "enum",
      paste(encodeString(inner$values, quote = "\""), collapse = ", ")
    ),
    schema = "JSON Schema",
    inner$kind
  )
  line <- paste0(
    indent,
    if (nzchar(name)) paste0(encodeString(name), ": "),
    prefix,
    what,
    if (!x$required) " (optional)",
    if (!is.null(x$description)) paste0(" - ", encodeString(x$description))
  )
  fields <- if (inner$kind == "object") inner$fields
  c(line, unlist(Map(type_lines, fields, names(fields), paste0(indent, "  "))))
}

#' Describe the structure of answers
#'
#' @description
#' These functions describe the fields of each answer and their types, for the argument `schema` of
#' [generate_parallel()]. The functions have the same names and arguments as in package ellmer.
#' Types created by ellmer are also accepted, on their own or as fields.
#'
#' * `type_boolean()`, `type_integer()`, `type_number()` and `type_string()` describe a single
#'   value, which becomes a column of that type.
#' * `type_enum()` describes a single value that is one of the texts `values`. The column is a
#'   factor with these texts as levels.
#' * `type_array()` describes any number of values of one type, which become a list column: of
#'   vectors, or of data frames if `items` is a `type_object()`.
#' * `type_object()` has named fields. The outermost object becomes the data frame itself; a nested
#'   object becomes a data frame in a column, or with `dotted = TRUE` columns with dotted names.
#' * `type_quote()` describes a verbatim part of the prompt's text. A quote becomes a data frame in
#'   a column, with the columns `quote`, `start` and `end`; see below.
#' * `type_from_schema()` creates a type from a JSON Schema, given as text or in a file.
#'
#' @section Descriptions:
#' The model does not see descriptions while it answers: answers have the right form because tokens
#' that would violate the schema are excluded, not because the model knows the form. Put
#' descriptions into the prompt with [schema_prompt()].
#'
#' @section Quotes:
#' While the model generates a quote, tokens that are not the next part of the text are excluded. So
#' every quote occurs in the text, however small the model is. By default the text is the prompt.
#' With `chat = TRUE` it is the last message of the user, with `quote_from` of [generate_parallel()]
#' it is the value of this argument, and in [annotate_texts()] it is the text that is coded. `start`
#' and `end` are the positions of the quote's first and last character, as [substr()] counts them.
#' If a quote occurs several times in the text, `start` and `end` give its first position. A quote
#' has no white space at its ends. With `unit = "words"` a quote begins and ends at the boundaries
#' of words; languages without spaces need `unit = "characters"`. A text that is shorter than
#' `least` is quoted completely. A text without any character other than white space cannot be
#' quoted, and its prompt fails.
#'
#' @param description,.description Description of the value for the prompt; see below.
#' @param required,.required FALSE allows answers without this field. The value is then NA, or
#'   NULL in a list column.
#' @param values Character vector, or a factor, whose levels are used; logical values and numbers
#'   become text.
#' @param unit Unit of `least` and `most`: `"words"`, which are sequences of letters and digits, or
#'   `"characters"`.
#' @param least Minimum length, at most 30 words or 300 characters. NULL uses 3 words or 10
#'   characters.
#' @param most Maximum length. NULL uses 40 words or 200 characters.
#' @param items The type of the elements.
#' @param ... Fields of the object: types, named by the names of the fields.
#' @param .additional_properties TRUE allows fields that are not named in `...`. Fields that are not
#'   named do not become columns, but the texts of the answers contain these fields.
#' @param text A JSON Schema as text.
#' @param path Path of a file with a JSON Schema.
#' @returns A `llamaherd_type`.
#' @seealso [generate_parallel()], [schema_prompt()]
#' @concept JSON
#' @concept JSON Schema
#' @concept structured output
#' @concept additional properties
#' @concept verbatim quote
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
#' # A quote, for evidence of at least five words.
#' type_object(
#'   claim = type_string("What the text claims."),
#'   evidence = type_quote("The words that claim it.", least = 5)
#' )
#'
#' # A JSON Schema can state more than a type. Ranges and lengths keep small models from
#' # writing endless numbers and texts.
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
  values <- unname(check_text(label_set(values), "values"))
  if (length(values) == 0 || anyDuplicated(values)) {
    must <- "one or more texts, all different"
    abort_argument("values", must, values)
  }
  new_type("enum", description, required, values = values)
}

#' @rdname type_boolean
#' @export
type_quote <- function(
  description = NULL,
  required = TRUE,
  unit = c("words", "characters"),
  least = NULL,
  most = NULL
) {
  unit <- check_choice(unit, c("words", "characters"))
  longest <- c(words = 30, characters = 300)[[unit]]
  lengths <- list(
    least = if (!is.null(least)) check_whole(least),
    most = if (!is.null(most)) check_whole(most)
  )
  if (!is.null(least) && !is.null(most) && least > most) {
    must <- sprintf("at most `most`, which is %d", most)
    abort_argument("least", must, least)
  }
  rule <- c(list(unit = unit), Filter(Negate(is.null), lengths))
  new_type("quote", description, required, rule = rule)
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
  if (is.list(.description) || is_type(.description)) {
    abort_unnamed("The first argument")
  }
  fields <- rlang::list2(...)
  names <- as_utf8(rlang::names2(fields))
  if (anyNA(names) || !all(nzchar(names))) {
    abort_unnamed("One of them")
  }
  if (anyDuplicated(names)) {
    twice <- names[[anyDuplicated(names)]]
    abort("There are two fields of the name {.field {twice}}.")
  }
  fields <- Map(\(type, name) check_type(type, name), fields, names)
  new_type(
    "object",
    check_string(.description, null = TRUE),
    check_flag(.required),
    fields = stats::setNames(fields, names),
    additional = check_flag(.additional_properties)
  )
}

#' @rdname type_boolean
#' @export
type_from_schema <- function(text, path) {
  if (missing(text) == missing(path)) {
    abort("Exactly one of {.arg text} and {.arg path} is needed.")
  }
  json <- if (missing(path)) {
    check_json(check_string(text), "text")
  } else {
    read_schema(path, "path")
  }
  new_type("schema", NULL, TRUE, json = json)
}

new_type <- function(kind, description, required, ...) {
  structure(
    list(
      kind = kind,
      description = check_string(description, "description", TRUE),
      required = check_flag(required, "required"),
      ...
    ),
    class = "llamaherd_type"
  )
}

is_type <- function(x) {
  inherits(x, "llamaherd_type") || inherits(x, "ellmer::Type")
}

check_type <- function(x, arg = rlang::caller_arg(x)) {
  if (!is_type(x)) {
    must <- "a type, such as type_string() makes"
    abort_argument(arg, must, x)
  }
  as_type(x, arg)
}

abort_unnamed <- function(which) {
  abort(c(
    "Every field must have a name, such as `name = type_string()`.",
    x = paste(which, "has none.")
  ))
}

# ---- ellmer's types ---------------------------------------------------------------------

# Converts a type of ellmer. Objects of ellmer have S7 classes, whose properties are attributes.
# Returns NULL for types that ellmer uses only for tools.
as_type <- function(x, arg) {
  if (inherits(x, "llamaherd_type")) {
    return(x)
  }
  kind <- sub("ellmer::Type", "", class(x)[[1]], fixed = TRUE)
  make <- function(kind, ...) {
    required <- property(x, "required") %||% TRUE
    new_type(kind, property(x, "description"), required, ...)
  }
  switch(
    kind,
    Basic = make(property(x, "type")),
    Enum = make("enum", values = as.character(property(x, "values"))),
    Array = make("array", items = as_type(property(x, "items"), arg)),
    Object = {
      fields <- property(x, "properties")
      fields <- fields[!vapply(fields, inherits, logical(1), "ellmer::TypeIgnore")]
      make(
        "object",
        fields = lapply(fields, as_type, arg = arg),
        additional = isTRUE(property(x, "additional_properties"))
      )
    },
    JsonSchema = make("schema", json = schema_json(property(x, "json"), arg)),
    abort_argument(arg, "a type for structured data", x)
  )
}

# S7 stores a symbol for a property that is NULL, because an attribute cannot be NULL.
property <- function(x, name) {
  value <- attr(x, name, exact = TRUE)
  if (is.symbol(value)) NULL else value
}

# ---- printing types -----------------------------------------------------------------

#' @export
format.llamaherd_type <- function(x, ...) {
  lines <- type_lines(x, "", "")
  lines[[1]] <- sprintf("<llamaherd_type> %s", lines[[1]])
  lines
}

#' @export
print.llamaherd_type <- function(x, ...) {
  show_lines(cut_to(format(x, ...), getOption("width")))
  invisible(x)
}

quote_line <- function(rule) {
  bounds <- c(
    if (!is.null(rule$least)) sprintf("at least %d", rule$least),
    if (!is.null(rule$most)) sprintf("at most %d", rule$most)
  )
  if (length(bounds) == 0) {
    return("quote")
  }
  sprintf("quote of %s %s", paste(bounds, collapse = ", "), rule$unit)
}

# Returns one line for the type, and one line for each nested field.
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
    quote = quote_line(inner$rule),
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

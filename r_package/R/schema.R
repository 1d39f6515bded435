# Converts the argument `schema` to JSON text for Python.

# Returns one text for all prompts, or a list with a text or NULL per prompt. NULL without a schema.
check_schema <- function(x, arg, n) {
  if (is.null(x)) {
    return(NULL)
  }
  if (!is_per_prompt_schema(x)) {
    return(schema_text(x, arg))
  }
  if (!length(x) %in% c(1L, n)) {
    must <- sprintf("one schema or a list with one for each prompt (%d)", n)
    abort_argument(arg, must, x)
  }
  args <- if (length(x) == 1) arg else sprintf("%s[[%d]]", arg, seq_along(x))
  text_of <- \(schema, name) if (!is.null(schema)) schema_text(schema, name)
  texts <- Map(text_of, unname(x), args)
  if (length(texts) == 1) {
    texts[[1]]
  } else if (!all(vapply(texts, is.null, logical(1)))) {
    structure(unname(texts), class = "per_prompt")
  }
}

# TRUE if the list contains one schema per prompt. A list that is itself a schema has keywords as
# names.
is_per_prompt_schema <- function(x) {
  several <- is.character(x) && length(x) != 1 || is.list(x) && length(x) > 0
  several && !is_type(x) && is.null(names(x))
}

# Converts a type, a list, a JSON text or the path of a file to JSON text.
schema_text <- function(x, arg, ...) {
  if (is_type(x)) {
    return(value_json(x, arg))
  }
  if (!is.null(names(x)) && !is.data.frame(x) || is.list(x) && length(x) == 0) {
    if (length(x) > 0 && !any(names(x) %in% unlist(keywords))) {
      hint <- "It has no keyword, such as `type`. Fields go into type_object(), or `properties`."
      abort_argument(arg, "a type or a JSON Schema", x, hint = hint)
    }
    return(schema_json(x, arg))
  }
  if (!is.character(x) || length(x) != 1 || is.na(x)) {
    must <- "a type such as type_object() makes, or a JSON Schema: a list, a text or a file"
    abort_argument(arg, must, x)
  }
  text <- check_text(unclass(x), arg)
  if (grepl("^\\s*([{\\[]|true\\s*$|false\\s*$)", text)) {
    return(check_json(text, arg))
  }
  read_schema(text, arg)
}

# Largest file that is read for a schema.
max_schema_bytes <- 4e6

read_schema <- function(path, arg) {
  hint <- "There is no such file; if this text is a JSON Schema, it must begin with a brace."
  path <- existing_file(path, arg, "a JSON Schema as text, or a file with one", hint)
  size <- file.size(native_path(path))
  if (is.na(size) || size > max_schema_bytes) {
    must <- sprintf("a file of at most %.0f MB", max_schema_bytes / 1e6)
    abort_argument(arg, must, path)
  }
  bytes <- tryCatch(
    suppressWarnings(readBin(native_path(path), "raw", size)),
    error = \(cnd) {
      abort_argument(arg, "a file that can be read", path, hint = conditionMessage(cnd))
    }
  )
  bytes <- bytes[bytes != 0]
  text <- sub("^\ufeff", "", check_text(rawToChar(bytes), arg))
  check_json(text, arg)
}

check_json <- function(text, arg) {
  valid <- jsonlite::validate(text)
  if (!valid) {
    reason <- strsplit(attr(valid, "err"), "\n", fixed = TRUE)[[1]][[1]]
    abort_argument(arg, "valid JSON", text, hint = escape_cli(reason))
  }
  text
}

# ---- converting lists and types to JSON ---------------------------------------------------

# Keywords of schemas by the type of their values. R has no scalars and one empty list, so only the
# keyword shows that `required = "a"` means ["a"], and that `items = list()` means {}.
keywords <- strsplit(
  c(
    array = "required enum examples anyOf oneOf allOf prefixItems",
    object = "items additionalItems contains additionalProperties propertyNames
      unevaluatedItems unevaluatedProperties not if then else properties
      patternProperties $defs definitions dependentSchemas",
    any = "type const $ref $schema $id $comment title description format pattern minLength
      maxLength minItems maxItems uniqueItems minimum maximum exclusiveMinimum
      exclusiveMaximum multipleOf minProperties maxProperties dependentRequired quote"
  ),
  "\\s+"
)

# Returns the JSON of a schema: a type, or a list.
schema_json <- function(x, arg) {
  if (is.list(x) && length(x) == 0) {
    return("{}")
  }
  value_json(x, arg)
}

# Returns the JSON of any value: lists with names become objects, other lists and vectors arrays.
# `arg` names the value in errors.
value_json <- function(x, arg) {
  as.character(jsonlite::toJSON(
    json_value(x, arg),
    auto_unbox = TRUE,
    digits = NA,
    null = "null",
    json_verbatim = TRUE
  ))
}

# Converts a value, perhaps with types, to lists and vectors that jsonlite writes. `key` is the
# keyword that it belongs to.
json_value <- function(x, arg, key = "") {
  if (is_type(x)) {
    return(type_value(as_type(x, arg)))
  }
  if (inherits(x, "json")) {
    return(structure(check_json(check_text(unclass(x), arg), arg), class = "json"))
  }
  x <- as_plain(x)
  if (is.atomic(x) && !is.null(names(x))) {
    x <- as.list(x)
  }
  if (is.list(x)) {
    names <- names(x)
    if (!all(nzchar(names)) || anyDuplicated(names)) {
      abort_argument(arg, "a list whose elements have unique names", x)
    }
    if (length(x) == 0 && key %in% keywords$object) {
      names <- character()
    }
    args <- if (is.null(names)) {
      sprintf("%s[[%d]]", arg, seq_along(x))
    } else {
      paste0(arg, if (nzchar(arg)) "$", names)
    }
    x <- Map(json_value, unname(unclass(x)), args, names %||% "")
    return(rlang::set_names(x, if (!is.null(names)) as_utf8(names)))
  }
  is_number <- is.numeric(x)
  if (
    !(is.null(x) || is_number || is.logical(x) || is.character(x)) ||
      anyNA(x) ||
      is_number && !all(is.finite(x))
  ) {
    # Python's messages name a last element by single brackets, too.
    arg <- sub("\\[(\\[[0-9]+\\])\\]$", "\\1", arg)
    abort_argument(arg, "a value that JSON can represent", x)
  }
  x <- if (is.character(x)) check_text(x, arg) else x
  if (key %in% keywords$array) as.list(x) else x
}

type_value <- function(type) {
  if (type$kind == "schema") {
    return(structure(type$json, class = "json"))
  }
  value <- switch(
    type$kind,
    enum = list(type = "string", enum = as.list(type$values)),
    array = list(type = "array", items = type_value(type$items)),
    object = {
      is_required <- vapply(type$fields, \(field) field$required, NA)
      list(
        type = "object",
        properties = rlang::set_names(
          lapply(type$fields, type_value),
          names(type$fields)
        ),
        required = as.list(names(type$fields)[is_required]),
        additionalProperties = type$additional
      )
    },
    quote = list(type = "string", quote = type$rule),
    list(type = type$kind)
  )
  value$description <- type$description
  value
}

# Factors and dates become text.
as_plain <- function(x) {
  if (is.factor(x) || inherits(x, c("Date", "POSIXt"))) as.character(x) else x
}

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
  texts <- Map(\(each, name) if (!is.null(each)) schema_text(each, name), unname(x), args)
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
    return(schema_json(as_type(x, arg), arg))
  }
  if (!is.null(names(x)) && !is.data.frame(x) || is.list(x) && length(x) == 0) {
    if (length(x) > 0 && !any(names(x) %in% c(unlist(schema_keywords), other_keywords))) {
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
  path <- expand_path(check_string(path, arg))
  if (!file_exists(path) || dir_exists(path)) {
    hint <- sprintf(
      "There is no file %s; if this text is a JSON Schema, it must begin with a brace.",
      dQuote(path, FALSE)
    )
    abort_argument(arg, "a JSON Schema as text, or a file with one", path, hint = hint)
  }
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

# ---- converting lists and types to JSON
# ---------------------------------------------------------------

# Keywords by the type of their values: a schema, an array of schemas, schemas by name, or an array
# of any values. R has no scalars, so only the keyword shows that `required = "a"` means ["a"].
schema_keywords <- strsplit(
  c(
    schema = "items additionalItems contains additionalProperties propertyNames
      unevaluatedItems unevaluatedProperties not if then else",
    schemas = "anyOf oneOf allOf prefixItems",
    named = "properties patternProperties $defs definitions dependentSchemas",
    array = "required enum examples"
  ),
  "\\s+"
)

# Further keywords of schemas.
other_keywords <- strsplit(
  "type const $ref $schema $id $comment title description format pattern minLength
   maxLength minItems maxItems uniqueItems minimum maximum exclusiveMinimum
   exclusiveMaximum multipleOf minProperties maxProperties dependentRequired quote",
  "\\s+"
)[[1]]

schema_json <- function(x, arg) {
  below <- function(value, name) {
    schema_json(value, paste0(arg, "$", name))
  }
  if (is_type(x)) {
    return(type_json(as_type(x, arg)))
  }
  if (rlang::is_bool(x)) {
    return(value_json(x, arg))
  }
  named_list <- function(x, ...) {
    given <- rlang::names2(x)
    if (!is.list(x) || is_type(x) || !all(nzchar(given)) || anyDuplicated(given)) {
      must <- "a list whose elements have unique names"
      abort_argument(paste(c(arg, ...), collapse = "$"), must, x)
    }
    x
  }
  x <- named_list(if (is.atomic(x) && !is.null(names(x))) as.list(x) else x)
  one <- function(value, key) {
    is_tuple <- is.list(value) && length(value) > 0 && is.null(names(value))
    if (key %in% schema_keywords$named) {
      json_object(Map(below, named_list(value, key), sprintf("%s$%s", key, names(value))))
    } else if (key %in% schema_keywords$schemas || key == "items" && is_tuple) {
      json_array(Map(below, value, sprintf("%s[[%d]]", key, seq_along(value))))
    } else if (key %in% schema_keywords$schema) {
      below(value, key)
    } else if (key %in% schema_keywords$array && is.atomic(value)) {
      value_json(as.list(as_plain(value)), arg)
    } else {
      value_json(value, paste0(arg, "$", key))
    }
  }
  json_object(Map(one, x, names(x)))
}

type_json <- function(type) {
  if (type$kind == "schema") {
    return(type$json)
  }
  text <- function(x) value_json(x, "")
  parts <- switch(
    type$kind,
    enum = list(type = text("string"), enum = text(as.list(type$values))),
    array = list(type = text("array"), items = type_json(type$items)),
    object = {
      required <- vapply(type$fields, \(field) field$required, logical(1))
      list(
        type = text("object"),
        properties = json_object(lapply(type$fields, type_json)),
        required = text(as.list(names(type$fields)[required])),
        additionalProperties = text(type$additional)
      )
    },
    quote = list(type = text("string"), quote = text(type$rule)),
    list(type = text(type$kind))
  )
  if (!is.null(type$description)) {
    parts$description <- text(type$description)
  }
  json_object(parts)
}

# Converts any value: lists with names become objects, other lists and vectors become arrays.
value_json <- function(x, arg) {
  if (is.null(x)) {
    return("null")
  }
  if (inherits(x, "json")) {
    return(check_json(check_text(unclass(x), arg), arg))
  }
  x <- as_plain(x)
  if (is.list(x)) {
    values <- lapply(x, value_json, arg)
    return(if (is.null(names(x))) json_array(values) else json_object(values))
  }
  bad <- !is.atomic(x) ||
    is.complex(x) ||
    is.raw(x) ||
    anyNA(x) ||
    is.numeric(x) && !all(is.finite(x))
  if (bad) {
    abort_argument(arg, "a value that JSON can represent", x)
  }
  if (!is.null(names(x))) {
    return(json_object(lapply(as.list(x), value_json, arg)))
  }
  if (is.character(x)) {
    x <- check_text(x, arg)
  }
  as.character(jsonlite::toJSON(
    x,
    auto_unbox = TRUE,
    digits = NA,
    always_decimal = FALSE
  ))
}

# Factors and dates become text.
as_plain <- function(x) {
  if (is.factor(x) || inherits(x, c("Date", "POSIXt"))) as.character(x) else x
}

json_array <- function(values) sprintf("[%s]", paste(unlist(values), collapse = ","))

json_object <- function(values) {
  names <- vapply(as_utf8(rlang::names2(values)), value_json, "", "")
  sprintf("{%s}", paste(names, unlist(values), sep = ":", collapse = ","))
}

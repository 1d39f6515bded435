# Which columns the answers that follow a JSON Schema have. What a schema leaves open, or
# says in a way that no column has, becomes a list column, of kind "any".
#
# A column is a list with `kind`, and `levels` of an "enum", `items` of an "array" and
# `fields` of an "object", which are columns themselves.

column <- function(kind, ...) list(kind = kind, ...)

# Columns for the answers to schemas, given as JSON; together if there are several.
schema_columns <- function(texts) {
  columns <- lapply(unique(texts), function(text) {
    root <- jsonlite::parse_json(text)
    left <- new.env(parent = emptyenv())
    left$n <- max_columns
    schema_column(root, list(root = root, left = left, depth = 0L, refs = "#"))
  })
  Reduce(either, columns)
}

# A small schema may stand for a huge one, and R does not call functions deep in functions.
max_columns <- 10000L
max_column_depth <- 50L

# `read` has the whole schema, how many more columns there may be, how deep this one is, and
# the references that led here: one that comes again has no end.
schema_column <- function(schema, read) {
  read$left$n <- read$left$n - 1L
  read$depth <- read$depth + 1L
  if (!is.list(schema) || read$left$n < 0L || read$depth > max_column_depth) {
    return(column("any"))
  }
  inner <- function(x) schema_column(x, read)
  result <- own_column(schema, inner)
  for (part in schema[["allOf"]]) {
    result <- both(result, inner(part))
  }
  for (name in c("anyOf", "oneOf")) {
    if (length(schema[[name]]) > 0) {
      result <- both(result, Reduce(either, lapply(schema[[name]], inner)))
    }
  }
  ref <- schema[["$ref"]]
  if (rlang::is_string(ref) && !ref %in% read$refs) {
    read$refs <- c(read$refs, ref)
    result <- both(result, inner(referred(ref, read$root)))
  }
  result
}

# What the keywords of a schema itself say.
own_column <- function(schema, inner) {
  if ("const" %in% names(schema)) {
    return(values_column(list(schema[["const"]])))
  }
  if (is.list(schema[["enum"]])) {
    return(values_column(schema[["enum"]]))
  }
  types <- unlist(schema[["type"]])
  if (is.null(types)) {
    types <- if (is.list(schema[["properties"]])) {
      "object"
    } else if (is.list(schema[["items"]])) {
      "array"
    } else {
      "any"
    }
  }
  Reduce(either, lapply(types, \(type) typed_column(type, schema, inner)))
}

typed_column <- function(type, schema, inner) {
  switch(
    type,
    string = ,
    number = ,
    integer = ,
    boolean = ,
    null = column(type),
    object = {
      fields <- schema[["properties"]]
      if (length(fields) == 0) {
        column("any")
      } else {
        column("object", fields = lapply(fields, inner))
      }
    },
    array = {
      items <- schema[["items"]]
      open <- is.null(items) || is.null(names(items)) || !is.null(schema[["prefixItems"]])
      column("array", items = if (open) column("any") else inner(items))
    },
    column("any")
  )
}

values_column <- function(values) {
  values <- values[!vapply(values, is.null, logical(1))]
  of <- function(test) all(vapply(values, test, logical(1)))
  if (length(values) == 0) {
    column("null")
  } else if (of(is.character)) {
    column("enum", levels = unique(unlist(values)))
  } else if (of(is.logical)) {
    column("boolean")
  } else if (of(is.numeric)) {
    column(if (of(is_whole)) "integer" else "number")
  } else {
    column("any")
  }
}

is_whole <- function(x) is.finite(x) && x == trunc(x)

# What "#/$defs/name" in a schema stands for, as Python reads it; NULL for anything else.
referred <- function(ref, root) {
  if (!grepl("^#(/|$)", ref)) {
    return(NULL)
  }
  pointer <- utils::URLdecode(substring(ref, 3))
  Encoding(pointer) <- "UTF-8"
  keys <- strsplit(pointer, "/", fixed = TRUE)[[1]]
  for (key in gsub("~0", "~", gsub("~1", "/", keys, fixed = TRUE), fixed = TRUE)) {
    root <- if (is.list(root) && !is.null(names(root))) {
      member(root, key)
    } else if (is.list(root) && grepl("^[0-9]{1,9}$", key)) {
      at <- as.integer(key) + 1L
      if (at <= length(root)) root[[at]]
    }
  }
  root
}

# The column that holds what either of two columns holds.
either <- function(x, y) {
  if (y$kind == "null") {
    return(x)
  }
  kinds <- c(x$kind, y$kind)
  if (x$kind == "null" || setequal(kinds, c("number", "integer")) && y$kind == "number") {
    return(y)
  }
  if (setequal(kinds, c("enum", "string"))) {
    return(column("string"))
  }
  if (setequal(kinds, c("number", "integer"))) {
    return(x)
  }
  if (x$kind != y$kind) {
    return(column("any"))
  }
  switch(
    x$kind,
    enum = column("enum", levels = union(x$levels, y$levels)),
    array = column("array", items = either(x$items, y$items)),
    object = column("object", fields = merge_fields(x$fields, y$fields, either)),
    x
  )
}

# The column for what fits both of them: the one that says more.
both <- function(x, y) {
  if (x$kind == "any") {
    y
  } else if (x$kind == "object" && y$kind == "object") {
    column("object", fields = merge_fields(x$fields, y$fields, both))
  } else if (x$kind == "array" && y$kind == "array") {
    column("array", items = both(x$items, y$items))
  } else if (x$kind == "string" && y$kind == "enum") {
    y
  } else {
    x
  }
}

merge_fields <- function(x, y, how) {
  for (name in names(y)) {
    x[[name]] <- if (is.null(x[[name]])) y[[name]] else how(x[[name]], y[[name]])
  }
  x
}

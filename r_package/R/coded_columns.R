# Columns of data frames of coded texts, as Python takes them.

# Columns that annotate_texts() knows: label, text, margin and prob; names, the labels; codebook, as
# JSON; several, whether a text may have more than one label; each, the columns of their
# probabilities. An empty list for other data frames.
coded_columns <- function(data) {
  if (!inherits(data, "llamaherd_coded")) {
    return(list())
  }
  known <- attr(data, "llamaherd")
  if (!all(known$needs %in% names(data))) {
    return(list()) # renamed by reference, as data.table::setnames() does
  }
  by_role <- as.list(known$columns)
  there <- \(name) if (length(name) == 1 && name %in% names(data)) unname(name)
  list(
    label = there(known$label),
    text = there(known$text),
    names = known$names,
    margin = there(by_role$margin),
    prob = there(by_role$prob),
    codebook = known$codebook$content,
    several = identical(known$codebook$type, "multiple"),
    each = intersect(unname(known$probs), names(data))
  )
}

check_data <- function(x, error_call, arg = "data") {
  if (!is.data.frame(x)) {
    abort_argument(arg, "a data frame", x, error_call)
  }
  x
}

# Names of columns that were given as strings, or as unquoted names; NULL if none were.
columns_named <- function(quo, data, arg, error_call) {
  expr <- rlang::quo_get_expr(quo)
  if (is.null(expr)) {
    return(NULL)
  }
  parts <- if (rlang::is_call(expr, "c")) as.list(expr)[-1] else list(expr)
  is_column <- vapply(
    parts,
    \(part) rlang::is_symbol(part) && as.character(part) %in% names(data),
    logical(1)
  )
  found <- if (all(is_column)) {
    vapply(parts, as.character, "")
  } else {
    rlang::try_fetch(rlang::eval_tidy(quo), error = \(cnd) rlang::as_label(expr))
  }
  if (is.null(found)) {
    return(NULL)
  }
  if (!is.character(found) || !all(found %in% names(data))) {
    abort_argument(arg, columns_of_data(data), found, error_call)
  }
  unname(found)
}

# What an argument stands for: the name of a column that was given unquoted, unless a variable of
# that name is there; else the value.
column_or_object <- function(quo, data) {
  expr <- rlang::quo_get_expr(quo)
  parts <- if (rlang::is_call(expr, "c")) as.list(expr)[-1] else list(expr)
  is_column <- \(part) {
    name <- if (rlang::is_symbol(part)) as.character(part) else ""
    env <- rlang::quo_get_env(quo)
    nzchar(name) && name %in% names(data) && !exists_as_value(name, env)
  }
  if (is.data.frame(data) && length(parts) > 0 && all(vapply(parts, is_column, TRUE))) {
    return(vapply(unname(parts), as.character, ""))
  }
  rlang::eval_tidy(quo)
}

exists_as_value <- function(name, env) {
  value <- rlang::env_get(env, name, default = NULL, inherit = TRUE)
  !is.null(value) && !is.function(value)
}

columns_of_data <- function(data) {
  there <- paste(utils::head(names(data), 10), collapse = ", ")
  sprintf("names of columns (there are %s)", there)
}

# Where a string names no column.
column_hint <- function(x, data) {
  if (rlang::is_string(x) && is.data.frame(data)) {
    sprintf("Columns are %s.", paste(utils::head(names(data), 10), collapse = ", "))
  }
}

one_column <- function(quo, data, arg, error_call) {
  found <- columns_named(quo, data, arg, error_call)
  if (length(found) > 1) {
    abort_argument(arg, "one column", found, error_call)
  }
  found
}

# The name of a column, or a number for each row.
column_or_values <- function(quo, data, arg, error_call) {
  expr <- rlang::quo_get_expr(quo)
  is_column <- rlang::is_symbol(expr) && as.character(expr) %in% names(data)
  values <- if (is_column) NULL else rlang::eval_tidy(quo)
  if (is.numeric(values)) {
    return(values)
  }
  one_column(quo, data, arg, error_call)
}

# Columns by name, as lists for Python.
py_columns <- function(data, names) {
  names <- unique(names)
  rlang::set_names(lapply(names, \(name) as_codes(data[[name]])), names)
}


# Numbers as a list; NA as NaN.
as_py_numbers <- function(x) {
  x <- as.double(unname(x))
  x[is.na(x)] <- NaN
  as.list(x)
}

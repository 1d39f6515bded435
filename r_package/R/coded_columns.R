# Converts columns of data frames of coded texts for Python.

# Returns the columns that annotate_texts() has recorded: `label`, `text`, `margin`, `prob` and, of
# labels that are numbers, `mean`; `names`, the labels; `codebook`, as JSON; `several`, TRUE if a
# text may have more than one label; `each`, the columns of the labels' probabilities. The list is
# empty for other data frames.
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
    mean = if (isTRUE(known$codebook$is_numeric)) there(by_role$mean),
    codebook = known$codebook$content,
    several = identical(known$codebook$type, "multiple"),
    scale = known$codebook$measured,
    each = intersect(unname(known$probs), names(data))
  )
}

# Returns the names of the columns with the model's own labels and probabilities in recalibrated
# data.
raw_columns <- function(data, columns) {
  intersect(paste0("raw_", columns), names(data))
}

# Returns the columns of the labels' probabilities, by label: the columns that annotate_texts()
# recorded, or else all columns that begin with "p_".
prob_columns <- function(data) {
  known <- if (inherits(data, "llamaherd_coded")) attr(data, "llamaherd")$probs
  if (!is.null(known) && all(known %in% names(data))) {
    return(unlist(known))
  }
  probs <- names(data)[startsWith(names(data), "p_") & nchar(names(data)) > 2L]
  rlang::set_names(probs, substring(probs, 3L))
}

# Returns the columns of the probabilities of all labels of coded texts, as a list; NULL if a column
# does not exist.
all_probs <- function(data, coding = attr(data, "llamaherd")) {
  names <- unname(coding$probs[coding$names])
  if (length(names) > 0 && all(names %in% names(data))) {
    lapply(unclass(data)[names], as.double)
  }
}

# Returns coded texts with their record in the form that Python reads as its own. `probs` are the
# columns of the probabilities of all labels.
coded_for_python <- function(x, labels, probs = NULL) {
  coding <- attr(x, "llamaherd")
  values <- unclass(x)
  names <- as_text(coding$names)
  probs <- probs %||% unname(coding$probs[names])
  has_probs <- length(names) > 0 &&
    length(probs) == length(names) &&
    all(probs %in% names(x))
  roles <- intersect(c("mean", "start", "end", "thinking"), names(coding$columns))
  roles <- if (isTRUE(coding$codebook$type %in% c("fields", "spans"))) {
    character()
  } else {
    roles
  }
  columns <- coding$columns[roles]
  columns <- columns[columns %in% names(x)]
  error <- unname(coding$columns["error"])
  stats <- unclass(coding$stats)
  # reticulate would convert a data frame to a pandas data frame.
  stats$actors <- if (!is.null(stats$actors)) lapply(stats$actors, as_py_list)
  tagged(
    "coded",
    text = coding$text,
    texts = text_list(as_utf8(values[[coding$text]])),
    labels = text_list(as_utf8(labels)),
    names = as_py_list(names),
    probs = if (has_probs) {
      rows_of(do.call(cbind, lapply(unname(values[probs]), as.double)))
    },
    errors = if (isTRUE(error %in% names(x))) text_list(as.character(values[[error]])),
    columns = lapply(rlang::set_names(values[columns], names(columns)), \(column) {
      if (is.numeric(column)) as_py_numbers(column) else text_list(as_utf8(column))
    }),
    run = coding$run_json,
    stats = stats
  )
}

check_frame <- function(x, arg = "data") {
  check_given(x, arg = arg)
  if (!is.data.frame(x)) {
    abort_argument(arg, "a data frame", x)
  }
}

# Returns a data frame without integers of 64 bits.
check_data <- function(x, arg = "data") {
  check_frame(x, arg)
  if (length(x) == 0) {
    abort_argument(arg, "a data frame with columns", x)
  }
  for (name in names(x)[vapply(x, inherits, NA, "integer64")]) {
    x[[name]] <- plain_integers(x[[name]])
  }
  x
}

# Converts integers of 64 bits, as data.table::fread() and databases return them, to numbers, or to
# text if a number would be rounded. Functions of R that do not know the class read such columns as
# numbers near 0. The package bit64 need not be installed.
plain_integers <- function(x) {
  if (!inherits(x, "integer64")) {
    return(x)
  }
  bytes <- writeBin(as.double(unclass(x)), raw(), endian = "little")
  text <- as_text(py_call("integer64_texts", bytes))
  if (any(nchar(text) > 15L, na.rm = TRUE)) text else as.double(text)
}

# Returns the columns that an expression names without quotes, as in c(a, b); otherwise NULL.
unquoted_columns <- function(quo, data) {
  expr <- rlang::quo_get_expr(quo)
  parts <- if (rlang::is_call(expr, "c")) as.list(expr)[-1] else list(expr)
  is_column <- \(part) rlang::is_symbol(part) && as.character(part) %in% names(data)
  if (length(parts) > 0 && all(vapply(parts, is_column, NA))) {
    vapply(unname(parts), as.character, "")
  }
}

# Returns names of columns given as strings or unquoted; NULL if none are given.
columns_named <- function(quo, data, arg) {
  check_quo_given(quo, arg)
  expr <- rlang::quo_get_expr(quo)
  if (is.null(expr)) {
    return(NULL)
  }
  columns <- unquoted_columns(quo, data)
  if (is.null(columns)) {
    columns <- rlang::try_fetch(
      rlang::eval_tidy(quo),
      error = \(cnd) selected(quo, data) %||% rlang::as_label(expr)
    )
  }
  if (!is.character(columns) && !is.null(columns)) {
    hint <- if (rlang::is_formula(columns)) "Write names of columns without `~`."
    abort_column(arg, columns, data, hint)
  }
  if (!all(columns %in% names(data))) {
    abort_column(arg, setdiff(columns, names(data)), data)
  }
  unname(columns)
}

# Returns the names of columns that a selection such as starts_with("p_") selects; NULL without
# dplyr, or if the expression is no selection.
selected <- function(quo, data) {
  if (rlang::quo_is_call(quo) && requireNamespace("dplyr", quietly = TRUE)) {
    plain <- as.data.frame(without_groups(data))
    rlang::try_fetch(names(dplyr::select(plain, !!quo)), error = \(cnd) NULL)
  }
}

# Requires an argument without a default that may be an unquoted name.
check_quo_given <- function(quo, arg) {
  if (rlang::quo_is_missing(quo)) {
    abort("{.arg {arg}} is missing.")
  }
}

# Returns the value of an argument, or the column names that the user wrote unquoted. If a column
# and a variable have the same name, this name causes an error when it is unquoted, unless column
# and variable have the same values, or the argument accepts only one of the two. The function
# `is_object` returns TRUE for a value, other than a column, that the argument accepts.
column_or_object <- function(quo, data, arg, is_object = \(x) FALSE) {
  check_quo_given(quo, arg)
  named <- if (is.data.frame(data)) unquoted_columns(quo, data)
  if (is.null(named)) {
    return(evaluated(quo, data, arg))
  }
  for (name in named) {
    if (is_object(variable_of(name, rlang::quo_get_env(quo)))) {
      return(rlang::eval_tidy(quo))
    }
  }
  check_unambiguous(named, quo, data, arg)
  named
}

# Returns the value of an argument that does not name columns. An unknown name causes an error that
# lists the columns.
evaluated <- function(quo, data, arg) {
  expr <- rlang::quo_get_expr(quo)
  if (rlang::is_symbol(expr) && is.data.frame(data) && nzchar(as.character(expr))) {
    name <- as.character(expr)
    if (!exists(name, envir = rlang::quo_get_env(quo))) {
      abort_column(arg, name, data)
    }
  }
  rlang::eval_tidy(quo)
}

# Returns the value of the user's variable with this name; NULL if there is no such variable.
# Functions and objects of packages are not variables of the user.
variable_of <- function(name, env) {
  repeat {
    if (identical(env, emptyenv()) || isNamespace(env)) {
      return(NULL)
    }
    value <- rlang::env_get(env, name, default = NULL)
    if (!is.null(value) && !is.function(value)) {
      return(value)
    }
    if (identical(env, globalenv())) {
      return(NULL)
    }
    env <- parent.env(env)
  }
}

# TRUE if a variable is a vector with other values than a column.
has_other_values <- function(variable, column) {
  is.atomic(variable) &&
    !is.null(variable) &&
    !identical(as.character(variable), as.character(column))
}

# Refuses names of columns that are also variables with other values. `column` formats what the user
# may write to name the column.
check_unambiguous <- function(names, quo, data, arg, column = "%s") {
  for (name in names) {
    if (has_other_values(variable_of(name, rlang::quo_get_env(quo)), data[[name]])) {
      column <- sprintf(column, encodeString(name, quote = "\""))
      abort(
        c(
          "{.arg {arg}} is ambiguous: {.code {name}} is a column and a variable with other values.",
          i = "Write {.code {column}} for the column, or {.code !!{name}} for the variable."
        ),
        argument = arg
      )
    }
  }
}

# TRUE for human codes that are not columns: a gold sample, a data frame or a list of coders.
is_codes <- function(x) is.list(x)

is_table <- function(x) is.matrix(x) || is.data.frame(x)

# Lists the columns, with the one whose name is nearest to that of a column that does not exist.
abort_column <- function(arg, name, data, hint = NULL) {
  must <- sprintf("names of columns (there are %s)", listed_columns(data))
  if (length(data) == 0) {
    must <- "numbers: without a data frame there are no columns to name"
  }
  abort_argument(arg, must, name, hint = hint %||% nearest_hint(name, data))
}

nearest_hint <- function(name, data) {
  nearest <- if (rlang::is_string(name)) closest(name, names(data))
  if (!is.null(nearest)) sprintf("Did you mean `%s`?", nearest)
}

# Returns a hint for data that have passages in place of labels.
spans_hint <- function(data) {
  name <- as.list(attr(data, "llamaherd")$columns)$spans %||% "spans"
  if (is.list(data[[name]])) {
    "validate_spans() compares passages, and coded_spans() lists them."
  }
}

# Lists the names of the first ten columns, and the number of the other columns.
listed_columns <- function(data) {
  first <- utils::head(names(data), 10)
  n_more <- length(data) - length(first)
  toString(c(first, if (n_more > 0) sprintf("and %d more", n_more)))
}

# Returns the hint for a string that is not the name of a column.
column_hint <- function(x, data) {
  if (rlang::is_string(x) && is.data.frame(data)) {
    paste(
      c(sprintf("Columns are %s.", listed_columns(data)), nearest_hint(x, data)),
      collapse = " "
    )
  }
}

one_column <- function(quo, data, arg) {
  columns <- columns_named(quo, data, arg)
  if (!is.null(columns) && length(columns) != 1) {
    abort_argument(arg, "one column", columns)
  }
  columns
}

# Requires the name of a column, or one number per row.
column_or_values <- function(quo, data, arg) {
  named <- unquoted_columns(quo, data)
  check_unambiguous(named, quo, data, arg)
  values <- if (is.null(named)) expression_of_columns(quo, data, arg)
  if (is.numeric(values)) values else one_column(quo, data, arg)
}

# Returns the value of an argument that is no column: an expression may contain columns, such as
# 1 / x. An expression without a value returns NULL.
expression_of_columns <- function(quo, data, arg) {
  used <- if (rlang::quo_is_call(quo)) variables_in(rlang::quo_get_expr(quo))
  if (!any(used %in% c(names(data), ".data"))) {
    return(rlang::try_fetch(evaluated(quo, data, arg), error = \(cnd) {
      if (inherits(cnd, "llamaherd_error")) rlang::cnd_signal(cnd)
    }))
  }
  check_single(data, names(data))
  check_unambiguous(intersect(used, names(data)), quo, data, arg, ".data[[%s]]")
  rlang::try_fetch(rlang::eval_tidy(quo, without_groups(data)), error = \(cnd) NULL)
}

# Returns the names of the variables of an expression, without names of parts, as x in data$x.
variables_in <- function(expr) {
  if (!is.call(expr)) {
    return(all.vars(expr))
  }
  if (rlang::is_call(expr, c("$", "@"))) {
    return(variables_in(expr[[2]]))
  }
  if (rlang::is_call(expr, "function")) {
    return(setdiff(variables_in(expr[[3]]), names(expr[[2]])))
  }
  parts <- as.list(expr)
  parts <- if (is.call(expr[[1]])) parts else parts[-1] # the name of a function
  is_empty <- vapply(parts, identical, NA, rlang::missing_arg()) # as in x[, 1]
  unique(unlist(lapply(parts[!is_empty], variables_in)))
}

# Converts columns to a named list of lists for Python.
py_columns <- function(data, names) {
  names <- unique(names)
  check_single(data, names)
  rlang::set_names(lapply(names, \(name) as_codes(data[[name]], name)), names)
}


# Refuses names that several columns have: R would use the first of them without a word.
check_single <- function(data, names) {
  twice <- intersect(names, names(data)[duplicated(names(data))])
  if (length(twice) > 0) {
    abort(c(
      "The data frame has several columns with the name {.field {twice[[1]]}}.",
      i = "Give each column its own name."
    ))
  }
}

# Converts numbers to a list, with NaN for NA.
as_py_numbers <- function(x) {
  x <- as.double(unname(plain_integers(x)))
  x[is.na(x)] <- NaN
  as.list(x)
}

# Returns the gold sample or codes, its design, and the names of the columns of labels and texts
# that a call with quosures uses.
labels_and_gold <- function(coded, gold, label, text) {
  check_coded_rows(coded, "coded")
  known <- coded_columns(coded)
  gold <- column_or_object(gold, coded, "gold", is_object = is_codes)
  design <- if (inherits(gold, "llamaherd_gold")) gold$design
  there <- \(name) if (!is.null(name) && name %in% names(coded)) name
  label <- one_column(label, coded, "label") %||%
    known$label %||%
    there(design$label) %||%
    "label"
  if (!label %in% names(coded)) {
    abort_column("label", label, coded, spans_hint(coded))
  }
  text <- one_column(text, coded, "text") %||%
    known$text %||%
    there(design$text)
  list(gold = gold, design = design, label = label, text = text)
}

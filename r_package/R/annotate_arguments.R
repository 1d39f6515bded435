# Arguments of annotate_texts(): texts of a data frame, options for Python, models of later steps.

# Returns the texts (NULL for NA), the name of their column, and whether `data` has this column.
texts_of <- function(data, quosure) {
  check_single(data, names(data)) # a mask of the data needs different names
  plain <- without_groups(data)
  values <- rlang::try_fetch(
    rlang::eval_tidy(quosure, plain),
    error = \(cnd) {
      nearest <- nearest_hint(rlang::as_label(quosure), data)
      abort(
        c(
          "{.arg text} must be a column of {.arg data}, or an expression of its columns.",
          i = "There are {listed_columns(data)}.",
          i = if (!is.null(nearest)) "{nearest}"
        ),
        parent = cnd
      )
    }
  )
  name <- rlang::as_label(quosure)
  if (rlang::is_string(rlang::quo_get_expr(quosure)) || rlang::is_string(values)) {
    if (values %in% names(data)) {
      name <- values
      values <- plain[[values]]
    } else if (rlang::is_string(rlang::quo_get_expr(quosure))) {
      abort_column("text", values, data)
    }
  }
  is_empty <- is.logical(values) && all(is.na(values))
  if (is.factor(values) || is_empty) {
    values <- as.character(values)
  }
  if (!is.character(values) || length(values) != nrow(data)) {
    must <- sprintf("texts, one for each of the %d rows", nrow(data))
    hint <- sprintf("There are the columns %s.", listed_columns(data))
    abort_argument("text", must, values, hint = hint)
  }
  values <- as.character(values) # without attributes, such as those of haven::read_sav()
  utf8 <- as_utf8(values)
  is_column <- name %in% names(data) && identical(as.character(plain[[name]]), values)
  list(
    values = text_list(utf8),
    texts = utf8,
    bad = which(is.na(utf8) & !is.na(values)),
    name = name,
    is_column = is_column
  )
}

# Warns of invalid texts, which a call without a column of errors leaves out.
warn_invalid <- function(bad, n) {
  if (length(bad) > 0) {
    warn(
      c(
        "{length(bad)} of {n} text{?s} {cli::qty(length(bad))}{?is/are} left out.",
        x = "Row {bad[[1]]}: {invalid_text}"
      ),
      "failed"
    )
  }
}

# Adds the errors of invalid texts, which Python got as missing texts, to Python's results.
with_invalid_texts <- function(answers, bad) {
  answers$errors[bad] <- invalid_text
  answers$error_codes[bad] <- "invalid_text"
  answers$columns[[length(answers$columns)]][bad] <- invalid_text
  answers
}

# Returns a data frame of the texts only; without columns if the texts are not a column.
plain_texts <- function(texts) {
  column <- if (texts$is_column) stats::setNames(list(texts$texts), texts$name)
  new_frame(as.list(column), length(texts$texts))
}

# Returns the texts as a list with NULL in place of NA, which would become the text "NA" in Python.
text_list <- function(x) {
  values <- as.list(unname(x))
  values[is.na(x)] <- list(NULL)
  values
}

without_groups <- function(data) {
  new_frame(lapply(stats::setNames(nm = names(data)), \(name) data[[name]]), nrow(data))
}

# Converts the arguments of annotate_texts() to the options of the Python function.
coding_options <- function(env) {
  options <- lapply(stats::setNames(nm = names(annotate_kinds)), \(name) {
    default <- eval(formals(annotate_texts)[[name]])
    as_option(env[[name]], annotate_kinds[[name]], name, default)
  })
  options$versions <- list(R = as.character(getRversion()))
  Filter(Negate(is.null), options)
}

# Converts an option for Python, which checks its value. All choices together mean the first.
as_option <- function(x, kind, arg, default) {
  if (is.null(x) && is.null(default)) {
    return(NULL)
  }
  switch(
    kind,
    path = py_path(x, arg),
    thinking = check_thinking(x),
    variables = if (length(x) > 0) check_variables(x),
    date = check_date(x, arg),
    evidence = check_evidence(x),
    model = check_later(x, arg),
    py_value(if (identical(x, default)) x[[1]] else x, arg)
  )
}

# Returns the model of a later step: an object of Python, or a path.
check_later <- function(x, arg) {
  if (inherits(x, "llamaherd_context")) {
    return(check_context(x, arg))
  }
  if (arg == "embeddings" && inherits(x, "llamaherd_model")) {
    return(check_model(x, arg))
  }
  py_path(x, arg)
}

# Checks the argument `evidence`. Returns TRUE, FALSE, or the minimum and maximum length of a quote.
check_evidence <- function(x) {
  if (inherits(x, "llamaherd_type") && x$kind == "quote") {
    return(x$rule)
  }
  py_value(x, "evidence")
}

# Columns that annotate_texts() adds: their names by role, their values and types.

# Returns the names of the new columns by role, without the columns that `columns` sets to NA.
new_names <- function(roles, columns, existing) {
  if (!is.null(columns) && !is.character(columns) && !all(is.na(columns))) {
    abort_argument("columns", "a string or a named vector", columns)
  }
  if (!is.null(names(columns))) {
    columns <- text_list(as_utf8(columns)) |> rlang::set_names(names(columns))
  } else if (!is.null(columns)) {
    columns <- check_string(columns, "columns")
  }
  new_names <- rlang::try_fetch(
    py_call("column_names", as_py_list(roles), columns, as_py_list(existing)),
    llamaherd_error_argument = \(cnd) abort_names(cnd)
  )
  unlist(new_names)
}

# Turns Python's error about column names into an error whose message contains the solution in R.
abort_names <- function(cnd) {
  role <- unlist(cnd$place)
  problem <- cnd$problem %||% conditionMessage(cnd)
  hint <- sprintf("columns = c(%s = \"...\")", role)
  abort(c(
    paste0("{.arg columns}: {problem}", if (!endsWith(problem, "?")) "."),
    i = if (identical(cnd$code, "conflict")) {
      "Choose another name, as with {.code {hint}}, or with {.code columns = \"coded_\"}
       for all."
    }
  ))
}

# Returns `data` with the new columns. `texts` is the return value of texts_of(), `results` the
# results of Python.
coded_frame <- function(data, texts, codebook, names, results) {
  text <- if (texts$is_column) texts$name else unname(names["coded_text"])
  # A result without the columns of labels and texts, such as a table of counts by label, is not a
  # table of coded texts.
  needs <- c(names[names(names) == "label"], text[!is.na(text)])
  if (length(needs) < 2) {
    needs <- unique(c(needs, names))[1:2]
  }
  new <- as.list(results$columns)
  is_generated <- codebook$type %in% c("fields", "spans")
  if (is_generated) {
    new <- c(as.list(text_columns(results$answers, schema_columns(codebook$schema))), new)
  }
  new$coded_text <- texts$texts
  data <- if (inherits(data, "llamaherd_coded")) without_coding(data) else data
  for (role in names(names)) {
    data[[names[[role]]]] <- new[[role]]
  }
  needs <- unname(needs)
  is_prob <- startsWith(names(names), "p_") & !is_generated
  coding <- list(
    label = if ("label" %in% names(names)) names[["label"]],
    text = text,
    names = results$names,
    probs = stats::setNames(names[is_prob], substring(names(names)[is_prob], 3L)),
    columns = names,
    codebook = codebook,
    needs = needs,
    prob_roles = if (!is_generated) names(names)[is_prob | names(names) == "prob"],
    answers = if (is_generated) results$labels,
    span_labels = if (codebook$type == "spans") names(codebook$labels),
    run = jsonlite::parse_json(results$run),
    run_json = results$run,
    stats = results$stats
  )
  as_coded(data, with_keys(coding, data))
}

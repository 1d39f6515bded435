# Columns that annotate_texts() adds: their names by role, their values and types.

# Returns the names of the new columns by role, without the columns that `columns` sets to NA.
new_names <- function(roles, columns, existing, error_call) {
  if (!is.null(columns) && !is.character(columns) && !all(is.na(columns))) {
    abort_argument("columns", "a string or a named vector", columns, error_call)
  }
  if (!is.null(names(columns))) {
    columns <- text_list(as_utf8(columns)) |> rlang::set_names(names(columns))
  } else if (!is.null(columns)) {
    columns <- check_string(columns, "columns", error_call = error_call)
  }
  found <- rlang::try_fetch(
    py_call("column_names", as_py_list(roles), columns, as_py_list(existing)),
    llamaherd_error_argument = \(cnd) abort_names(cnd, error_call)
  )
  unlist(found)
}

# Turns Python's error about column names into an error whose message contains the solution in R.
abort_names <- function(cnd, error_call) {
  role <- unlist(cnd$place)
  problem <- cnd$problem %||% conditionMessage(cnd)
  hint <- sprintf("columns = c(%s = \"...\")", role)
  abort(
    c(
      paste0("{.arg columns}: {problem}", if (!endsWith(problem, "?")) "."),
      i = if (identical(cnd$code, "conflict")) {
        "Choose another name, as with {.code {hint}}, or with {.code columns = \"coded_\"}
         for all."
      }
    ),
    "argument",
    error_call
  )
}

# Returns `data` with the new columns. `texts` is the return value of texts_of().
coded_frame <- function(data, texts, codebook, names, found) {
  labels <- as_text(found[["labels"]])
  text <- if (texts$is_column) texts$name else unname(names["coded_text"])
  # A result without the columns of labels and texts, such as a table of counts by label, is not a
  # table of coded texts.
  needs <- c(names[names(names) == "label"], text[!is.na(text)])
  if (length(needs) < 2) {
    needs <- unique(c(needs, names))[1:2]
  }
  new <- new_columns(found, codebook, labels)
  new$coded_text <- texts$texts
  new <- new[names(names)]
  known <- inherits(data, "llamaherd_coded")
  data <- if (known) without_coding(data) else data
  for (role in names(names)) {
    data[[names[[role]]]] <- new[[role]]
  }
  needs <- unname(needs)
  is_generated <- codebook$type %in% c("fields", "spans")
  each <- startsWith(names(names), "p_") & !is_generated
  as_coded(
    data,
    list(
      label = if ("label" %in% names(names)) names[["label"]],
      text = text,
      names = as_text(found[["names"]]),
      probs = stats::setNames(names[each], substring(names(names)[each], 3L)),
      columns = names,
      codebook = codebook,
      needs = needs,
      keys = unique(row_keys(lapply(needs, \(name) data[[name]]))),
      answers = if (is_generated) labels,
      span_labels = if (codebook$type == "spans") names(codebook$labels),
      run = jsonlite::parse_json(found[["run"]]),
      run_json = found[["run"]],
      stats = new_stats(found[["stats"]])
    )
  )
}

# Returns the new columns by role.
new_columns <- function(found, codebook, labels) {
  values <- found[["columns"]]
  thoughts <- thoughts_of(found[["thoughts"]])
  if (!is.null(thoughts)) {
    names(thoughts) <- as_text(found[["thought_roles"]]) # names that no field has
  }
  if (codebook$type %in% c("fields", "spans")) {
    located <- as_text(found[["located"]] %||% labels) # positions counted from 1, as in R
    fields <- text_columns(located, schema_columns(codebook$schema))
    roles <- names(values)
    fields[names(thoughts)] <- thoughts
    fields[[roles[[length(roles)]]]] <- as_text(found[["errors"]])
    return(fields)
  }
  others <- c("label", "error", "quote", "step", names(thoughts))
  made <- lapply(values[setdiff(names(values), others)], numbers_of)
  for (role in intersect(c("quote", "step"), names(values))) {
    made[[role]] <- as_text(values[[role]])
  }
  places <- intersect(c("start", "end"), names(made))
  made[places] <- lapply(made[places], as.integer)
  made[names(thoughts)] <- thoughts
  made$error <- as_text(found[["errors"]])
  made$label <- if (codebook$type == "multiple") {
    labels
  } else if (isTRUE(codebook$is_numeric)) {
    numbers <- numbers_of(found[["numbers"]])
    known <- as.double(as_text(found[["names"]]))
    if (all(known == round(known))) as.integer(numbers) else numbers
  } else {
    factor(labels, as_text(found[["names"]]), ordered = codebook$type == "ordinal")
  }
  made
}

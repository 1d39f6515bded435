# Columns for answers that follow JSON Schemas, as Python determines them. A field whose type is not
# fixed, or does not match any type of column, becomes a list column, of kind "any".
#
# A column is a list with `kind`. An "enum" also has `levels`, an "array" has `items` and an
# "object" has `fields`; items and fields are columns themselves.

# Returns the columns for answers to schemas in JSON; combined if there are several.
schema_columns <- function(texts) {
  as_schema_column(py_call("schema_columns", as.list(unique(texts))))
}

as_schema_column <- function(x) {
  result <- list(kind = x[["kind"]])
  switch(
    x[["kind"]],
    enum = result$levels <- as_text(x[["levels"]]),
    array = result$items <- as_schema_column(x[["items"]]),
    object = result$fields <- stats::setNames(
      lapply(x[["fields"]], as_schema_column),
      as_text(x[["names"]])
    )
  )
  result
}

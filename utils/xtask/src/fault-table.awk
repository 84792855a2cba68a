# Rows of the table of faults, for people: calls that a fault ended in the same way share one, with
# the longest of their times. Reads what the end-to-end suites wrote to GPUNET_FAULT_TABLE.
BEGIN { FS = "\t" }
{
    key = $1 FS $3 FS $4 FS $6
    if (index(", " calls[key] ", ", ", " $2 ", ") == 0)
        calls[key] = calls[key] == "" ? $2 : calls[key] ", " $2
    if (!(key in longest) || $5 + 0 > longest[key])
        longest[key] = $5 + 0
}
END {
    for (key in calls) {
        split(key, field, FS)
        due = field[3] == 0 ? "at once" : sprintf("%d ms", field[3] / 1000)
        time = longest[key] < 100 ? "< 0.1 ms" : sprintf("%.1f ms", longest[key] / 1000)
        printf "| %s | %s | %s | %s | %s | %s |\n", field[1], calls[key], field[2], due, time, field[4]
    }
}

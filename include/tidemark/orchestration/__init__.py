"""What Airflow's side knows: operators, DAG support, the timetable, exit codes of jobs."""
